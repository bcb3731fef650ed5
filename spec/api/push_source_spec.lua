-- Sources whose values come by callbacks: env:source { push = ... }, from_socket, from_stdin.
local LOST_AFTER_MS = require "support.lost_after"
local child = require "support.child"
local p = require "support.pipeline"
local sc = require "streamckpt"
local uv = require "luv"

local HOST = "127.0.0.1"

after_each(p.clean)

-- Serve this process's loop until `condition()` is true, and return its value.
local function serve(condition)
  local timer, ticks = uv.new_timer(), 0
  timer:start(5, 5, function() ticks = ticks + 1 end)
  local value
  repeat
    uv.run("once")
    value = condition()
  until value or ticks > LOST_AFTER_MS // 5
  timer:close()
  uv.run("nowait")
  return assert(value, "it did not come true")
end

-- Wait for the end of a job while this process's loop is served: its status, or nil and why.
local function ended(job)
  local status, message
  serve(function()
    status, message = job:wait(0)
    return status or not message:find("^ETIMEOUT")
  end)
  return status, message
end

-- A port at which nobody listens.
local function free_port()
  local tcp = uv.new_tcp()
  assert(tcp:bind(HOST, 0))
  local port = tcp:getsockname().port
  tcp:close()
  uv.run("nowait")
  return port
end

-- Sockets, pipes, loops, files; a job's handle has eventfds until it is collected.
local function descriptors()
  local n = 0
  for name in uv.fs_scandir_next, assert(uv.fs_scandir("/proc/self/fd")) do
    local target = uv.fs_readlink("/proc/self/fd/" .. name)
    if target and target ~= "anon_inode:[eventfd]" then n = n + 1 end
  end
  return n
end

-- How many there are when the engine runs, which keeps what it opens, and this process's loop has had a
-- socket: it keeps a descriptor in reserve from then on.
local function descriptors_at_rest()
  free_port()
  p.rows({}, function(env) return env:from_values { 1 } end)
  collectgarbage()
  uv.run("nowait")
  return descriptors()
end

local function wait_for_descriptors(most)
  serve(function()
    collectgarbage()
    return descriptors() <= most
  end)
end

-- A server in this process: peers.port, peers.came, and what each peer is told by on_peer(peer, number).
local function server(on_peer, port)
  local peers, sockets = { came = 0 }, {}
  local tcp = uv.new_tcp()
  assert(tcp:bind(HOST, port or 0))
  assert(tcp:listen(16, function(err)
    assert(not err, err)
    local peer = uv.new_tcp()
    assert(tcp:accept(peer))
    peers.came = peers.came + 1
    sockets[#sockets + 1] = peer
    on_peer(peer, peers.came)
  end))
  peers.port = tcp:getsockname().port
  function peers.close()
    sockets[#sockets + 1] = tcp
    for _, socket in ipairs(sockets) do if not socket:is_closing() then socket:close() end end
    uv.run("nowait")
  end
  return peers
end

local function send_and_close(text)
  return function(peer) peer:write(text, function() peer:close() end) end
end

local function count_up_to(n)
  local out = {}
  for i = 1, n do out[i] = i end
  return out
end

describe("source with push", function()
  it("gives what callbacks push, in order, until it is finished", function()
    assert.same({ 1, 2, 3, 4, 5 }, p.rows({}, function(env)
      return env:source { uid = "ticks", push = function(_, sink)
        local timer, n = require("luv").new_timer(), 0
        timer:start(1, 1, function()
          n = n + 1
          assert(sink:push(n))
          if n == 5 then
            timer:close()
            sink:finish()
          end
        end)
      end }
    end))
  end)

  it("takes values at once, with timestamps, and tables that are changed afterwards", function()
    assert.same({ { n = 1, at = 10 }, { n = 2, at = "none" } }, p.rows({}, function(env)
      return env:source { uid = "at once", push = function(_, sink)
        local value = { n = 1 }
        sink:push(value, 10)
        value.n = 2
        sink:push(value)
        value.n = 3
        sink:finish()
      end }:map(function(v, ctx)
        v.at = ctx.timestamp or "none"
        return v
      end)
    end))
  end)

  it("runs in each task", function()
    assert.same({ "0 of 3", "1 of 3", "2 of 3" }, p.sorted({ parallelism = 3 }, function(env)
      return env:source { uid = "each", push = function(ctx, sink)
        sink:push(("%d of %d"):format(ctx.subtask, ctx.parallelism))
        sink:finish()
      end }
    end))
  end)

  it("pauses a producer that can pause, and loses nothing", function()
    local folder = p.folder()
    local rows = p.rows({ network = { segment_size = 256, exclusive_buffers = 1, floating_buffers = 0 } },
      function(env)
        return env:source { uid = "paused", capacity = 10, push = function(_, sink)
          local idle, n, pauses = require("luv").new_idle(), 0, 0
          local function produce()
            for _ = 1, 25 do -- what it has in its hands when it is paused is taken, too
              n = n + 1
              assert(sink:push(n))
            end
            if n < 2000 then return end
            local file <close> = io.open(folder .. "/pauses", "w")
            file:write(pauses)
            idle:close()
            sink:finish()
          end
          idle:start(produce)
          return {
            pause = function()
              pauses = pauses + 1
              idle:stop()
            end,
            resume = function() idle:start(produce) end,
          }
        end }:rebalance():map(function(v) return v end)
      end)
    assert.same(count_up_to(2000), rows)
    assert.equals("80", p.read(folder .. "/pauses")) -- once in each 25, of which 10 fill the queue
  end)

  it("drops and counts what does not fit where the producer cannot pause", function()
    local rows, result = p.rows({}, function(env)
      return env:source { uid = "flood", capacity = 10, push = function(_, sink)
        local timer = require("luv").new_timer()
        timer:start(1, 0, function()
          local taken = 0
          for i = 1, 100 do if sink:push(i) then taken = taken + 1 end end
          assert(taken == 10)
          timer:close()
          sink:finish()
        end)
      end }
    end)
    assert.same(count_up_to(10), rows)
    assert.equals(90, result:metrics("flood").numRecordsDropped)
  end)

  it("closes what it opened: when it ends, when it fails, when it is canceled", function()
    local folder = p.folder()
    local function source(env, name, how)
      return env:source { uid = "closed", push = function(_, sink)
        local timer = require("luv").new_timer()
        timer:start(1, 0, function() how(sink) end)
        return { close = function()
          timer:close()
          io.open(folder .. "/" .. name, "w"):close()
        end }
      end }
    end
    p.rows({}, function(env) return source(env, "ends", function(sink) sink:finish() end) end)
    assert.is_truthy(p.read(folder .. "/ends"))
    local message = p.failure({}, function(env)
      return source(env, "fails", function(sink) sink:fail("the sensor is gone") end)
    end)
    assert.matches("EIO: closed %(closed%) 1/1: the sensor is gone$", message)
    assert.is_truthy(p.read(folder .. "/fails"))
    local job = p.start({}, function(env) return source(env, "canceled", function() end) end)
    p.wait_for(job, function() return job:status().state == "running" end)
    job:cancel()
    p.wait(job)
    p.wait_for(job, function() return p.read(folder .. "/canceled") or job:status().state ~= "canceled" end)
  end)

  it("fails with the place where push, or a callback, raises", function()
    local function failure(push)
      return p.failure({}, function(env) return env:source { uid = "bad", push = push } end)
    end
    local FILE = "spec/api/push_source_spec.lua:%d+: "
    assert.matches("bad %(bad%) 1/1: push: " .. FILE .. "boom", failure(function() error("boom") end))
    assert.matches("a callback of luv: " .. FILE .. "boom", failure(function()
      require("luv").new_timer():start(1, 0, function() error("boom") end)
    end))
    assert.matches("sink:push%(value%): nil cannot be emitted", failure(function(_, sink) sink:push() end))
    assert.matches("value is a function", failure(function(_, sink) sink:push(print) end))
    assert.matches("sink has no field 'emit'", failure(function(_, sink) sink:emit(1) end))
    assert.matches("call it with a colon: sink:push", failure(function(_, sink) sink.push(1) end))
    assert.matches("a push source emits by sink:push%(value%)", failure(function(ctx) ctx:emit(1) end))
    assert.matches("push must return nothing, or a table with pause", failure(function() return 1 end))
    assert.matches("push returned a table with 'stop'", failure(function() return { stop = print } end))
    assert.matches("only one of pause and resume", failure(function() return { pause = function() end } end))
    assert.matches("sink:fail's words", failure(function(_, sink) sink:fail("sink:fail's words") end))
  end)

  it("keeps what waits in a checkpoint, so that a stop and a start lose none of it", function()
    local folder = p.folder()
    local function options()
      return { id = "kept", checkpoint = { interval = "1h", dir = folder .. "/ckpt" } }
    end
    -- The producer gives 100 values at once, of which the first waits in a map until the job is stopped.
    local function build(env)
      local stream = env:source { uid = "numbers", push = function(_, sink)
        if io.open(folder .. "/gave") then return sink:finish() end
        for i = 1, 100 do sink:push(i, i) end
        io.open(folder .. "/gave", "w"):close()
      end }
      return stream:rebalance():map(function(v, ctx)
        if v == 1 then
          io.open(folder .. "/taken", "w"):close()
          while not io.open(folder .. "/go") do require("luv").sleep(1) end
        end
        assert(ctx.timestamp == v)
        return v
      end):uid("slow")
    end
    local small = options()
    small.network = { segment_size = 256, exclusive_buffers = 1, floating_buffers = 0 }
    local seen = {}
    local function build_and_note(env)
      build(env):map(function(v) return v end):to_file(folder .. "/out", { format = "lines" }):uid("out")
    end
    small.slots = 2
    local job = p.start(small, build_and_note)
    p.wait_for(job, function() return p.read(folder .. "/taken") end)
    io.open(folder .. "/go", "w"):close()
    local path = assert(job:stop())
    p.run(small, build_and_note, { from = path })
    for _, line in ipairs(p.parts(folder .. "/out")) do seen[#seen + 1] = math.tointeger(tonumber(line)) end
    table.sort(seen)
    assert.same(count_up_to(100), seen)
  end)

  it("hands on what it has taken when the job is drained, and takes nothing more", function()
    local folder = p.folder()
    local job = p.start({ id = "drained", checkpoint = { interval = "1h", dir = folder .. "/ckpt" } },
      function(env)
        return env:source { uid = "endless", push = function(_, sink)
          local timer, n = require("luv").new_timer(), 0
          timer:start(0, 1, function()
            n = n + 1
            sink:push(n)
          end)
        end }
      end)
    p.wait_for(job, function() return (job:metrics("endless").numRecordsOut or 0) > 3 end)
    assert(job:stop { drain = true })
    local rows = assert(job:rows("rows"))
    assert.is_true(#rows > 3)
    assert.same(count_up_to(#rows), table.move(rows, 1, #rows, 1, {}))
  end)

  it("says at the start that it cannot be read again", function()
    local folder = p.folder()
    local _, err, code = p.script(([[
      local sc = require "streamckpt"
      local env = sc.env { checkpoint = { interval = "1h", dir = "%s/ckpt" } }
      env:source { uid = "once", push = function(_, sink) sink:finish() end }:collect():uid("rows")
      env:execute()
    ]]):format(folder), folder)
    assert.equals(0, code)
    assert.matches("WARN .* once: cannot be read again: after a failure records of it are lost", err)
  end)

  it("is refused where it is described wrongly", function()
    local function refused(spec, pattern)
      local ok, message = pcall(function() return sc.env():source(spec) end)
      assert.is_false(ok)
      assert.matches(pattern, message)
    end
    local function push() end
    refused({ push = push, read = push }, "source with push has no read")
    refused({ push = push, splits = push }, "source with push has no splits")
    refused({ push = push, close = push }, "source with push has no close: push may return a table")
    refused({ push = push, replayable = true }, "source with push is not replayable")
    refused({ push = 1 }, "push must be a function")
    refused({ push = push, capacity = 0 }, "capacity must be an integer from 1")
    refused({ splits = push, read = push, capacity = 1 }, "capacity has a meaning only together with push")
  end)
end)

describe("from_socket", function()
  -- Start a job that reads from `port`; its lines are the rows.
  local function start(port, options, job_options)
    return p.start(job_options or {}, function(env) return env:from_socket(HOST, port, options):uid("lines") end)
  end

  it("reads lines until the peer closes, and leaves no descriptor open", function()
    local before = descriptors_at_rest()
    local peers = server(send_and_close("one\ntwo\r\n\nfour\n"))
    local job = start(peers.port)
    assert(ended(job))
    peers.close()
    assert.same({ "one", "two", "", "four" }, { table.unpack(job:rows("rows")) })
    wait_for_descriptors(before)
  end)

  it("takes lines that come in pieces, and a name for the host", function()
    local peers = server(function(peer)
      local pieces = { "he", "l", "lo\nwo", "rld", "\n" }
      local function send(i)
        if not pieces[i] then return peer:close() end
        peer:write(pieces[i], function() send(i + 1) end)
      end
      send(1)
    end)
    local log = p.folder() .. "/log"
    local job = p.start({ log = { level = "off", file = log } }, function(env)
      return env:from_socket("localhost", peers.port):uid("lines")
    end)
    assert(ended(job))
    peers.close()
    assert.same({ "hello", "world" }, { table.unpack(job:rows("rows")) })
    assert.is_nil(p.read(log):find("ERROR", 1, true), p.read(log))
  end)

  it("takes half a line as the last one where the peer closes in the middle of it, and says so", function()
    local folder = p.folder()
    local peers = server(send_and_close("whole\nhal"))
    local job = start(peers.port, nil, { log = { level = "off", file = folder .. "/log" } })
    assert(ended(job))
    peers.close()
    assert.same({ "whole", "hal" }, { table.unpack(job:rows("rows")) })
    assert.matches("lines %(lines%) 1/1: 127.0.0.1:%d+ closed in the middle of a line: the 3 bytes that came of "
      .. "it are taken as the last line", p.read(folder .. "/log"))
  end)

  it("says in a sentence that nothing listens there, and that there is no such host", function()
    local job = start(free_port())
    local _, message = ended(job)
    assert.matches("^EIO: lines %(lines%) 1/1: cannot connect to 127.0.0.1:%d+: nothing listens there %(ECONNREFUSED%)$",
                   message)
    local message_of_name = p.failure({}, function(env)
      return env:from_socket("no-such-host.invalid", 80):uid("lines")
    end)
    assert.matches("EIO: lines %(lines%) 1/1: cannot connect to no%-such%-host.invalid:80: ", message_of_name)
    -- What cannot be a name is refused before it is looked up.
    local longest = ("x"):rep(3000)
    for _, listen in ipairs { false, true } do
      local message_of_no_name = p.failure({}, function(env)
        return env:from_socket(longest, 80, { listen = listen }):uid("lines")
      end)
      assert.matches("EIO: lines %(lines%) 1/1: cannot " .. (listen and "listen at" or "connect to"), message_of_no_name)
    end
  end)

  it("connects again when it is told to: to who closes, and to who is not there yet", function()
    local port = free_port()
    local job = start(port, { reconnect = 5 })
    p.wait_for(job, function() return job:status().state == "running" end)
    local peers = server(function(peer, number)
      peer:write(("peer %d\nend"):format(number), function() peer:close() end)
    end, port)
    serve(function() return peers.came > 3 end)
    peers.close()
    p.wait_for(job, function() return #job:rows("rows") >= 4 end)
    job:cancel()
    ended(job)
    local rows = job:rows("rows")
    assert.same({ "peer 1", "end", "peer 2", "end" }, { rows[1], rows[2], rows[3], rows[4] })
  end)

  it("makes a peer wait that sends more than is taken, and loses none of it", function()
    local folder = p.folder()
    local sent, total, line = 0, 400, ("x"):rep(1023) .. "\n"
    local chunk = line:rep(64)
    local peers = server(function(peer)
      local function send()
        if sent == total then return peer:close() end
        sent = sent + 1
        peer:write(chunk, send)
      end
      send()
    end)
    local job = p.start({ slots = 2, network = { segment_size = 4096, exclusive_buffers = 1, floating_buffers = 0 } },
      function(env)
        env:from_socket(HOST, peers.port, { capacity = 16 }):uid("lines"):rebalance():map(function(v)
          while not io.open(folder .. "/go") do require("luv").sleep(1) end
          return #v
        end):filter(function(n) return n ~= 1023 end):collect():uid("rows")
      end)
    -- 25 MiB are to come; no kernel's socket buffers take that much of it. When the writes have stopped for a
    -- while it waits: that is no proof, but the sum of what is sent before the gate opens is.
    local last, quiet = -1, 0
    serve(function()
      quiet = sent == last and quiet + 1 or 0
      last = sent
      return sent > 0 and quiet > 40
    end)
    assert.is_true(sent < total)
    io.open(folder .. "/go", "w"):close()
    assert(ended(job))
    peers.close()
    assert.same({}, { table.unpack(job:rows("rows")) })
    assert.equals(total * 64, job:metrics("lines").numRecordsOut)
    assert.is_nil(job:metrics("lines").numRecordsDropped)
  end)

  it("listens, reads one peer after another, and says in a sentence that the port is in use", function()
    local before = descriptors_at_rest()
    local port = free_port()
    local job = start(port, { listen = true })
    local closed = 0
    local function send(text)
      local tcp = uv.new_tcp()
      tcp:connect(HOST, port, function(err)
        if not err then return tcp:write(text, function() tcp:close(function() closed = closed + 1 end) end) end
        tcp:close()
        send(text) -- it does not listen yet
      end)
    end
    send("first\n")
    serve(function() return closed == 1 and #job:rows("rows") == 1 end)
    send("second\nthird")
    serve(function() return closed == 2 and #job:rows("rows") == 3 end)
    assert.same({ "first", "second", "third" }, { table.unpack(job:rows("rows")) })
    local _, message = ended(start(port, { listen = true }))
    assert.matches("^EIO: lines %(lines%) 1/1: cannot listen at 127.0.0.1:%d+: another program listens there %(EADDRINUSE%)$",
                   message)
    job:cancel()
    ended(job)
    wait_for_descriptors(before)
  end)

  it("can be canceled while it connects, waits, or reads", function()
    local before = descriptors_at_rest()
    local peers = server(function() end) -- says nothing
    for _, options in ipairs { {}, { reconnect = "1h" }, { listen = true } } do
      local job = start(options.listen and free_port() or peers.port, options)
      p.wait_for(job, function() return job:status().state == "running" end)
      job:cancel()
      local _, message = ended(job)
      assert.matches("^ECANCELED", message or "ECANCELED")
    end
    peers.close()
    wait_for_descriptors(before)
  end)

  it("is refused where it is called wrongly", function()
    local function refused(pattern, ...)
      local arguments = table.pack(...)
      local ok, message = pcall(function()
        return sc.env():from_socket(table.unpack(arguments, 1, arguments.n))
      end)
      assert.is_false(ok)
      assert.matches("^spec/api/push_source_spec.lua:%d+: .*" .. pattern, message)
    end
    refused("from_socket needs a host, got nil")
    refused("from_socket needs a port, an integer from 1 to 65535, got '80'", HOST, "80")
    refused("from_socket needs a port", HOST, 0)
    refused("did you mean 'reconnect'", HOST, 1, { reconect = true })
    refused("reconnect must be true, false, or a duration longer than zero", HOST, 1, { reconnect = 0 })
    refused("reconnect has no meaning with listen", HOST, 1, { reconnect = true, listen = true })
    local ok, message = pcall(function() return sc.env():from_socket(HOST, 1):parallelism(2) end)
    assert.is_false(ok)
    assert.matches("parallelism 2 of from_socket: it has one reader", message)
  end)
end)

describe("from_stdin", function()
  local SCRIPT = [[
    local sc = require "streamckpt"
    local env = sc.env {}
    env:from_stdin():uid("stdin"):map(function(line) return "<" .. line .. ">" end):print()
    env:execute()
  ]]

  it("reads a file to its end", function()
    local out, err, code = p.script(SCRIPT, p.folder(), "one\ntwo\r\nrest")
    assert.same({ '"<one>"\n"<two>"\n"<rest>"\n', "", 0 }, { out, err, code })
  end)

  it("reads nothing from where there is nothing", function()
    local out, err, code = p.script(SCRIPT, p.folder(), "")
    assert.same({ "", "", 0 }, { out, err, code })
  end)

  it("reads a pipe of the shell", function()
    local folder = p.folder()
    p.write(folder .. "/job.lua", SCRIPT)
    local result = child.run { command = { "sh", "-c", "printf 'a\\nb' | lua5.4 job.lua" }, folder = folder }
    assert.same({ '"<a>"\n"<b>"\n', "", 0 }, { result.stdout, result.stderr, result.code })
  end)

  it("gives lines as they come, from a socket, too", function()
    local seen = {}
    local result = child.script(p.folder(), SCRIPT .. "io.stderr:write('ended')", { on_line = function(line, process)
      seen[#seen + 1] = line
      if #seen == 3 then return process.kill("sigterm") end
      process.write(#seen == 1 and "two\n" or "three\n")
    end, input = "one\n" })
    assert.same({ '"<one>"', '"<two>"', '"<three>"' }, seen)
    assert.is_nil(result.late)
  end)

  it("says in a sentence that standard input is closed", function()
    local folder = p.folder()
    p.write(folder .. "/job.lua", SCRIPT)
    local result = child.run { command = { "sh", "-c", "exec lua5.4 job.lua <&-" }, folder = folder }
    assert.equals(1, result.code)
    assert.matches("EIO: stdin %(stdin%) 1/1: standard input is closed: there is nothing to read", result.stderr)
  end)

  it("says in a sentence that a line is too long", function()
    local folder = p.folder()
    p.write(folder .. "/job.lua", SCRIPT)
    for _, input in ipairs { "head -c 70000000 /dev/zero | exec lua5.4 job.lua", "exec lua5.4 job.lua </dev/zero" } do
      local result = child.run { command = { "sh", "-c", input }, folder = folder }
      assert.equals(1, result.code)
      assert.matches("EIO: stdin %(stdin%) 1/1: a line is longer than 67108864 bytes\n", result.stderr)
      assert.is_nil(result.stderr:find("sink:lines", 1, true), result.stderr)
    end
  end)

  it("leaves standard input as it was for the script", function()
    local folder = p.folder()
    p.write(folder .. "/job.lua", [[
      local sc = require "streamckpt"
      local env = sc.env {}
      env:source { uid = "one", push = function(_, sink) sink:push(1) sink:finish() end }:print()
      local second = sc.env { name = "second" }
      second:from_stdin():uid("stdin"):sink(function(line) if line == "stop" then error("enough") end end)
      print(select(2, pcall(second.execute, second)):match("enough"))
      env:execute()
      print(io.read())
    ]])
    local result = child.run { command = { "sh", "-c", [[
        while read -r line; do echo "$line"; if [ "$line" = mine ]; then break; fi; done | lua5.4 job.lua
      ]] }, folder = folder, input = "stop\n", on_line = function(line, process)
        if line == "1" then process.write("mine\n") end
      end }
    assert.same({ "enough\n1\nmine\n", 0 }, { result.stdout, result.code })
  end)

  it("is read by one source only", function()
    local ok, message = pcall(function()
      local env = sc.env()
      env:from_stdin()
      env:from_stdin()
    end)
    assert.is_false(ok)
    assert.matches("from_stdin: standard input is already read by the source at spec/api/push_source_spec.lua:%d+",
                   message)
  end)
end)
