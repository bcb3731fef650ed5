-- Leaving: whatever a process does while a job runs (it exits, fails, falls off its end, is interrupted,
-- forks), it ends soon, with the status that it asked for, without a crash, and nothing is lost. Warnings
-- are off: a checkpoint may be slow on a busy machine, and says so.
local child = require "support.child"
local folder = require "support.folder"

-- A job that runs until it is told not to, takes a checkpoint every few ms and has two slots; its first
-- record says "record".
local JOB = [[
  local sc = require "streamckpt"
  io.stdout:setvbuf("line")
  local function say(word) io.write(word, "\n") end
  local function build(options)
    options = options or {}
    local env = sc.env { name = "leaving", parallelism = 2, log = { level = options.level or "error" },
                         checkpoint = { interval = options.interval or 5, dir = "ckpt" } }
    env:from_generator { rate = 20000, fn = function(i) return { k = i % 5, n = 1 } end }:uid("numbers")
      :key_by("k"):process { uid = "count", state = { n = sc.value() }, on_element = options.fn or function(ctx, v)
        local n = (ctx.state.n:get() or 0) + v.n
        ctx.state.n:set(n)
      end }
    return env
  end
]]

describe("leaving", function()
  local f
  before_each(function() f = folder.new() end)
  after_each(function() f:remove() end)

  -- Run the job's script: its status, and what it said to standard error.
  local function run(text, on_line)
    local result = child.script(f.path, JOB .. text, { on_line = on_line })
    assert.is_nil(result.late, "it did not end: " .. result.stdout .. result.stderr)
    return result
  end

  local function assert_ended(result, code, stderr)
    assert.same({ code = code, signal = 0, stderr = stderr or "" },
                { code = result.code, signal = result.signal, stderr = result.stderr })
  end

  -- At ten moments: before anything runs, while it starts, in and between checkpoints. Where exactly a
  -- moment falls differs from run to run, and none may matter.
  local MOMENTS = {
    "", "job:wait(1)", "job:wait(2)", "job:wait(4)", "job:wait(8)", "job:wait(16)",
    "while job:status().state == 'starting' do job:wait(1) end", "job:checkpoint()",
    "job:checkpoint() job:wait(3)", "job:cancel()", "job:cancel() job:wait(1)",
  }

  local function at_each_moment(last, code, stderr)
    for _, moment in ipairs(MOMENTS) do
      local text = "local job = assert(build():start()) " .. moment .. "\n" .. last
      local result = run(text)
      assert.same({ moment, code, 0 }, { moment, result.code, result.signal }, result.stderr)
      assert.matches(stderr or "^$", result.stderr, nil, moment)
      f:clear()
    end
  end

  it("by os.exit keeps the status, at any moment", function() at_each_moment("os.exit(3)", 3) end)

  it("by os.exit that closes the state does, too", function() at_each_moment("os.exit(4, true)", 4) end)

  it("by the end of the script does", function() at_each_moment("", 0) end)

  it("by an error of the script does", function()
    at_each_moment("error('a mistake')", 1, "^[^:]*lua5.4: script.lua:%d+: a mistake\nstack traceback:")
  end)

  -- ---- Ctrl-C ----

  local function metadata()
    local found = {}
    for _, name in ipairs(f:names("ckpt/leaving")) do
      if f:read("ckpt/leaving/" .. name .. "/_metadata") then found[#found + 1] = name end
    end
    return found
  end

  -- Interrupts the process once, when it has told of its first checkpoint.
  local function interrupt(line, process)
    if line ~= "now" or process.interrupted then return end
    process.interrupted = true
    process.kill("sigint")
  end

  local EXECUTE = [[
    local env = build { fn = function(ctx, v)
      local n = (ctx.state.n:get() or 0) + 1
      ctx.state.n:set(n)
      -- The slot tells, since the script waits: a checkpoint is there.
      if n % 50 == 0 and io.open("ckpt/leaving/chk-1/_metadata") or io.open("ckpt/leaving/chk-2/_metadata")
        or io.open("ckpt/leaving/chk-3/_metadata") then print("now") end
    end }
  ]]

  it("by Ctrl-C in execute raises, takes the job down and keeps its last checkpoint", function()
    local result = run(EXECUTE .. [[
      local ok, message = pcall(env.execute, env)
      say(tostring(ok) .. " " .. tostring(message))
      -- The job has ended: its folder is free again.
      local again = assert(env:start { from = "latest" })
      local status = again:status()
      say(tostring(status.restored_from))
      os.exit(5)
    ]], interrupt)
    assert_ended(result, 5)
    assert.matches("\nfalse interrupted!\n.*ckpt/leaving/chk%-%d+\n", result.stdout)
  end)

  it("by Ctrl-C in execute ends a script as it ends any other", function()
    local result = run(EXECUTE .. "env:execute()", interrupt)
    assert_ended(result, 1, result.stderr)
    assert.matches("^[^:]*lua5.4: interrupted!\nstack traceback:", result.stderr)
    assert.equals(1, #metadata())
    local kept = metadata()[1]
    result = run([[
      local job = assert(build():start { from = "latest" })
      say(job:status().restored_from)
      assert(job:checkpoint())
    ]])
    assert_ended(result, 0)
    assert.equals("ckpt/leaving/" .. kept .. "\n", result.stdout)
  end)

  it("by Ctrl-C in a coroutine that waits raises there", function()
    local result = run(EXECUTE .. [[
      local co = coroutine.create(function() env:execute() end)
      say(select(2, coroutine.resume(co)))
    ]], interrupt)
    assert_ended(result, 0)
    assert.matches("\ninterrupted!\n$", result.stdout)
  end)

  it("by Ctrl-C in wait raises, and the job goes on", function()
    local result = run(EXECUTE .. [[
      local job = assert(env:start())
      local ok, message = pcall(job.wait, job)
      say(tostring(ok) .. " " .. tostring(message))
      say(job:status().state)
      assert(job:checkpoint())
    ]], interrupt)
    assert_ended(result, 0)
    assert.matches("\nfalse interrupted!\n", result.stdout)
    assert.matches("\nrunning\n", result.stdout)
  end)

  it("by a second Ctrl-C ends at once, and what is there can be continued", function()
    -- A function that hangs in C, where nothing can stop it: the first Ctrl-C waits for it.
    local result = run([[
      local env = build { fn = function(ctx, v)
        if io.open("ckpt/leaving/chk-1/_metadata") or io.open("ckpt/leaving/chk-2/_metadata") then
          print("now")
          local _ = ("a"):rep(60):find(("a*"):rep(60) .. "b")
        end
      end, interval = 5 }
      env:execute()
    ]], function(line, process)
      if line ~= "now" then return end
      process.kill("sigint")
      -- The first has been taken when no handler is left for it.
      local caught
      repeat
        caught = io.open("/proc/" .. process.pid .. "/status"):read("a"):match("SigCgt:%s*(%x+)")
      until tonumber(caught, 16) & 2 == 0
      process.kill("sigint")
    end)
    assert.same({ 0, 2 }, { result.code, result.signal }, result.stderr)
    result = run([[
      local job = assert(build():start { from = "latest" })
      say(job:status().restored_from)
      assert(job:checkpoint())
    ]])
    assert_ended(result, 0)
    assert.matches("ckpt/leaving/chk%-%d+\n$", result.stdout)
  end)

  -- ---- functions that never end ----

  local LOOPS = {
    ["a plain loop"] = "while true do end",
    ["a loop that catches every error"] = "while true do pcall(function() while true do end end) end",
    ["pcalls in pcalls"] = [[
      local function again(n) while true do if n > 0 then pcall(again, n - 1) end end end
      again(50)]],
    ["a coroutine of its own"] = "coroutine.wrap(function() while true do end end)()",
    ["a coroutine that is resumed"] = [[
      local co = coroutine.create(function() while true do coroutine.yield() end end)
      while true do assert(coroutine.resume(co)) end]],
    ["coroutines in coroutines"] = [[
      local function deep(n)
        coroutine.wrap(function() if n == 0 then while true do end end deep(n - 1) end)()
      end
      deep(20)]],
    ["large strings"] = "while true do local _ = ('x'):rep(1000000):gsub('x', 'y') end",
    ["a callback of gsub"] = "local _ = ('x'):gsub('x', function() while true do end end)",
    ["a comparison of sort"] = "table.sort({ 3, 1, 2 }, function(a, b) while true do end end)",
    ["a metamethod"] = "local _ = setmetatable({}, { __index = function() while true do end end }).x",
    ["a variable that is closed"] = [[
      do local v <close> = setmetatable({}, { __close = function() while true do end end }) end]],
    ["emitting without end"] = "while true do ctx:emit(1) end",
    ["a loop of luv"] = "local uv = require 'luv' uv.new_timer():start(0, 1, function() end) uv.run()",
    ["loops of luv, again and again"] = [[
      local uv = require "luv"
      uv.new_timer():start(0, 1, function() end)
      while true do pcall(uv.run) end]],
    ["a callback of luv"] = [[
      local uv = require "luv"
      uv.new_timer():start(0, 0, function() while true do end end)
      uv.run()]],
    ["a callback of luv that catches every error"] = [[
      local uv = require "luv"
      uv.new_timer():start(0, 0, function() while true do pcall(function() while true do end end) end end)
      uv.run()]],
  }

  for name, body in pairs(LOOPS) do
    it("cancel ends a function that never ends: " .. name, function()
      local result = run(([[
        local env = build { fn = function(ctx, v)
          print("in")
          %s
        end }
        local job = assert(env:start())
        local up
        while not up do
          job:wait(1)
          for _, row in ipairs(job:metrics()) do up = up or row.uid == "count" and row.numRecordsIn > 0 end
        end
        job:cancel()
        local status = assert(job:wait("100s"))
        assert(status.state == "canceled", tostring(status))
        -- Its folder is free, and the process goes on as if nothing had been.
        job = assert(build { interval = 0 }:start { from = "latest" })
        job:cancel()
        assert(job:wait("100s"))
        os.exit(6)
      ]]):format(body))
      assert_ended(result, 6)
      assert.matches("^in\n", result.stdout)
    end)
  end

  -- ---- forks ----

  it("a child inherits no descriptor of a job that runs", function()
    local result = run([[
      local function descriptors()
        local pipe <close> = assert(io.popen("ls -l /proc/self/fd"))
        local out = {}
        for line in pipe:lines() do
          local number, target = line:match(" (%d+) %-> (.*)$")
          -- The listing reads its own folder; the ends of pipes differ.
          if number and not target:find("^/proc/") then
            out[#out + 1] = number .. " " .. target:gsub("%[%d+%]", "")
          end
        end
        return table.concat(out, "\n")
      end
      local before = descriptors()
      local job = assert(build():start())
      job:on("checkpoint", function() end)
      for i = 1, 30 do
        assert(job:checkpoint())
        local during = descriptors()
        assert(during == before, during .. "\nbefore:\n" .. before)
      end
    ]])
    assert_ended(result, 0)
  end)

  it("a child that leaves does not touch the job", function()
    local result = run([[
      local job = assert(build():start())
      for i = 1, 20 do
        assert(os.execute("true"))
        local pipe <close> = assert(io.popen("echo $$"))
        assert(pipe:read("n"))
        assert(job:checkpoint())
      end
      assert(job:status().state == "running")
    ]])
    assert_ended(result, 0)
  end)

  -- ---- the script's own loop ----

  it("an error in a callback of the script's loop ends nothing", function()
    local result = run([[
      local uv = require "luv"
      local job = assert(build():start())
      local seen = 0
      job:on("checkpoint", function()
        seen = seen + 1
        if seen == 5 then job:cancel() end
        error("in callback " .. seen)
      end)
      job:on("canceled", function() say("canceled") end)
      uv.run()
      say("seen " .. tostring(seen >= 5))
      os.exit(7)
    ]])
    assert_ended(result, 7, result.stderr)
    assert.equals("canceled\nseen true\n", result.stdout)
    assert.matches("^streamckpt: error in the callback for 'checkpoint': script.lua:%d+: in callback 1\n",
                   result.stderr)
  end)

  -- ---- os.exit in a slot ----

  for _, call in ipairs { "os.exit(8)", "os.exit(8, true)" } do
    it("by " .. call .. " in a function of the job keeps the status", function()
      local result = run(([[
        build { fn = function(ctx, v) %s end }:execute()
      ]]):format(call))
      assert_ended(result, 8)
    end)
  end

  it("by os.exit in two slots at once is no failure of the second", function()
    local result = run [[
      build { level = "warn", fn = function()
        if not os.execute("mkdir first 2>/dev/null") then
          repeat until io.open("leaving")
          io.open("second", "w"):close()
          os.exit(9)
        end
        -- The first one's state closes only when the other slot is about to leave, too, and takes its time.
        last = setmetatable({}, { __gc = function()
          io.open("leaving", "w"):close()
          repeat until io.open("second")
          for _ = 1, 2e7 do end
        end })
        os.exit(8, true)
      end }:execute()
    ]]
    assert.same({ 8, 0 }, { result.code, result.signal }, result.stderr)
    assert.is_nil(result.stderr:find("fail"), result.stderr)
  end)
end)
