-- producers: what fills the push sources that come with the library: a socket, and standard input.
--
-- Each makes a `push` function as env:source takes one. It runs in a slot, in whose luv loop its callbacks
-- are called; its upvalues travel there, so they are plain. What it returns lets the source pause it: a
-- socket that is not read makes its peer wait, by TCP.

local producers = {}

-- From <fcntl.h> of Linux: O_CLOEXEC | O_NONBLOCK. Opened for reading.
local OPEN_FLAGS = 0x80000 | 0x800
local CHUNK_BYTES = 65536
local BACKLOG = 16

local WORDS = {
  ECONNREFUSED = "nothing listens there", EADDRINUSE = "another program listens there",
  ECONNRESET = "the peer has cut it", ETIMEDOUT = "it does not answer", EACCES = "it is not permitted",
  EADDRNOTAVAIL = "this machine does not have that address", EHOSTUNREACH = "there is no way to it",
  ENETUNREACH = "there is no way to it", EAI_NONAME = "there is no such host",
  EAI_AGAIN = "its name cannot be looked up now",
}

-- luv's "ECONNREFUSED" or "ECONNREFUSED: connection refused", in words.
local function in_words(err)
  local code = tostring(err):match("^[%u_]+") or ""
  return WORDS[code] and ("%s (%s)"):format(WORDS[code], code) or tostring(err)
end

local function close_all(handles)
  for handle in pairs(handles) do
    if not handle:is_closing() then handle:close() end
  end
end

-- Push the lines of what has come. One that is too long is nobody's mistake here, so it needs no traceback.
local function push_lines(sink, chunk)
  local ok, problem = pcall(sink.lines, sink, chunk)
  if not ok then sink:fail((tostring(problem):gsub("^sink:lines%(chunk%): ", ""))) end
end

-- What a reader of one stream after another shares: the stream that is read, and whether it may be.
-- `ended(err, rest)` is called when the stream has ended, with the number of bytes of a line without end.
local function stream_reader(sink, ended)
  local current, paused
  local reader = {}
  local function on_chunk(err, chunk)
    if not current then return end
    if chunk then return push_lines(sink, chunk) end
    local stream, rest = current, sink:flush()
    current = nil
    stream:close()
    ended(err, rest)
  end
  local function read()
    if current and not paused then current:read_start(on_chunk) end
  end
  function reader.open(stream)
    current = stream
    read()
  end
  function reader.is_open() return current ~= nil end
  function reader.pause()
    paused = true
    if current then current:read_stop() end
  end
  function reader.resume()
    paused = false
    read()
  end
  function reader.close()
    if current and not current:is_closing() then current:close() end
    current = nil
  end
  return reader
end

local function warn_of_rest(sink, name, rest)
  if rest > 0 then
    sink:warn(("%s closed in the middle of a line: the %d bytes that came of it are taken as the last line")
      :format(name, rest))
  end
end

-- Call found(addresses) or failed(err); an address is given at once. Returns a function that gives up what is
-- under way. (luv knows a request no more, and raises, once it has called back.)
local function look_up(uv, host, port, found, failed)
  local request, problem
  if host:find(":", 1, true) or host:find("^[%d.]+$") then
    found { { addr = host, port = port } }
  else
    request, problem = uv.getaddrinfo(host, tostring(port), { socktype = "stream" }, function(err, addresses)
      request = nil
      if err or #addresses == 0 then return failed(err or "EAI_NONAME") end
      found(addresses)
    end)
    if not request then failed(problem) end
  end
  return function()
    if request then uv.cancel(request) end
  end
end

--- Read lines from a peer that listens.
-- @param host a name or an address
-- @param port its number
-- @param reconnect ms after which a connection that was lost, or not made, is tried again; nil: never
-- @return a push function
function producers.client(host, port, reconnect)
  local name = ("%s:%d"):format(host, port)
  return function(_, sink)
    local uv = require "luv"
    local handles, closed, told, give_up, connect = {}, false, false, nil, nil

    local function again(sentence)
      if not reconnect then return sink:fail(sentence) end
      if not told then sink:warn(sentence .. ("; it is tried again every %d ms"):format(reconnect)) end
      told = true
      local timer = uv.new_timer()
      handles[timer] = true
      timer:start(reconnect, 0, function()
        handles[timer] = nil
        timer:close()
        connect()
      end)
    end

    local reader = stream_reader(sink, function(err, rest)
      warn_of_rest(sink, name, rest)
      if err then return again(("the connection to %s was lost: %s"):format(name, in_words(err))) end
      if not reconnect then return sink:finish() end
      again(("%s has closed the connection"):format(name))
    end)

    local function failed(err)
      if not closed then again(("cannot connect to %s: %s"):format(name, in_words(err))) end
    end

    -- One address of the host after another.
    local function try(addresses, i)
      local tcp = uv.new_tcp()
      handles[tcp] = true
      local function connected(err)
        handles[tcp] = nil
        if closed then return end
        if not err then
          told = false
          return reader.open(tcp)
        end
        tcp:close()
        if addresses[i + 1] then return try(addresses, i + 1) end
        failed(err)
      end
      local ok, err = tcp:connect(addresses[i].addr, port, connected)
      if not ok then connected(err) end
    end

    function connect()
      give_up = look_up(uv, host, port, function(addresses)
        if not closed then try(addresses, 1) end
      end, failed)
    end

    connect()
    return { pause = reader.pause, resume = reader.resume, close = function()
      closed = true
      give_up()
      reader.close()
      close_all(handles)
    end }
  end
end

--- Listen, and read lines from whoever connects: one peer after another; others wait.
-- @param host an address or name of this machine
-- @param port its number
-- @return a push function
function producers.server(host, port)
  local name = ("%s:%d"):format(host, port)
  return function(_, sink)
    local uv = require "luv"
    local server, closed, waiting, reader = uv.new_tcp(), false, false, nil

    local function failed(err)
      if not closed then sink:fail(("cannot listen at %s: %s"):format(name, in_words(err))) end
    end

    -- The loop accepts no further peer before this one is taken, so that there is at most one to wait.
    local function accept()
      waiting = false
      local peer = uv.new_tcp()
      local ok, err = server:accept(peer)
      if ok then return reader.open(peer) end
      peer:close()
      sink:warn(("a peer of %s was lost before it was read: %s"):format(name, in_words(err)))
    end

    reader = stream_reader(sink, function(err, rest)
      warn_of_rest(sink, "a peer of " .. name, rest)
      if err then sink:warn(("the connection of a peer to %s was lost: %s"):format(name, in_words(err))) end
      if waiting then accept() end
    end)

    local give_up = look_up(uv, host, port, function(addresses)
      if closed then return end
      local ok, err = server:bind(addresses[1].addr, port)
      if ok then
        ok, err = server:listen(BACKLOG, function(problem)
          if problem then return failed(problem) end
          waiting = true
          if not reader.is_open() then accept() end
        end)
      end
      if not ok then failed(err) end
    end, failed)

    return { pause = reader.pause, resume = reader.resume, close = function()
      closed = true
      give_up()
      reader.close()
      close_all { [server] = true }
    end }
  end
end

-- What cannot be read at all is closed: the module holds its number with a descriptor for writing.
local function stdin_problem(err)
  if tostring(err):find("^EBADF") then return "standard input is closed: there is nothing to read" end
  return "standard input cannot be read: " .. in_words(err)
end

-- Regular files and devices are read piece by piece in luv's pool; one piece at a time.
local function read_file(uv, sink)
  local paused, reading, closed = false, false, false
  local function read()
    if paused or reading or closed then return end
    reading = true
    uv.fs_read(0, CHUNK_BYTES, -1, function(err, data)
      reading = false
      if closed then return end
      if err then return sink:fail(stdin_problem(err)) end
      if data == "" then
        closed = true
        return sink:finish()
      end
      push_lines(sink, data)
      read()
    end)
  end
  read()
  return {
    pause = function() paused = true end,
    resume = function()
      paused = false
      read()
    end,
    close = function() closed = true end,
  }
end

-- Pipes and terminals are opened anew where that is possible: what luv does to a descriptor (it must not
-- block) would be seen by whoever shares it, and closing it would close the process's own.
local function read_pipe(uv, sink)
  local fd, problem = uv.fs_open("/dev/stdin", OPEN_FLAGS, 0)
  if not fd then fd, problem = require("streamckpt.core").copy_descriptor(0) end
  local pipe = uv.new_pipe(false)
  local ok
  if fd then ok, problem = pipe:open(fd) end
  if not ok then
    pipe:close()
    return sink:fail(stdin_problem(problem))
  end
  local reader = stream_reader(sink, function(err)
    if err then return sink:fail(stdin_problem(err)) end
    sink:finish()
  end)
  reader.open(pipe)
  return { pause = reader.pause, resume = reader.resume, close = reader.close }
end

--- Read lines from standard input, to its end.
-- @return a push function
function producers.stdin()
  return function(_, sink)
    local uv = require "luv"
    local kind = uv.guess_handle(0)
    if kind == "file" then return read_file(uv, sink) end
    if kind == "pipe" or kind == "tty" or kind == "tcp" then return read_pipe(uv, sink) end
    sink:fail(stdin_problem("EBADF"))
  end
end

return producers
