-- luv in functions of a job: what its callbacks raise fails the task that registered them.
local uv = require "luv"
local p = require "support.pipeline"

after_each(p.clean)

describe("luv in a slot", function()
  it("works: handles, their methods, requests, and what is asked for at once", function()
    local rows = p.rows({}, function(env)
      return env:from_values { 1, 2, 3 }:map(function(n)
        local luv = require "luv"
        local out = {}
        local timer = luv.new_timer()
        timer:start(0, 0, function()
          out[#out + 1] = "timer " .. n
          timer:close(function() out[#out + 1] = "closed" end)
        end)
        luv.run()
        luv.fs_stat("/nowhere at all", function(err, stat)
          out[#out + 1] = err:match("^%u+") .. " " .. tostring(stat)
        end)
        luv.run()
        out[#out + 1] = select(3, luv.fs_stat("/nowhere at all"))
        return table.concat(out, ", ")
      end)
    end)
    local each = "timer %d, closed, ENOENT nil, ENOENT"
    assert.same({ each:format(1), each:format(2), each:format(3) }, rows)
  end)

  it("comes as an upvalue of the script, too", function()
    assert.same({ 2 }, p.rows({}, function(env)
      return env:from_values { 1 }:map(function(n)
        uv.new_timer():start(0, 0, function() n = n + 1 uv.stop() end)
        uv.run()
        return n
      end)
    end))
  end)

  it("takes callables and gives callbacks all their arguments", function()
    assert.same({ "call one nil three", "walk timer" }, p.rows({}, function(env)
      return env:from_values { 1 }:flat_map(function()
        local out = {}
        local async = uv.new_async(setmetatable({}, { __call = function(_, ...)
          local words = table.pack(...)
          for i = 1, words.n do words[i] = tostring(words[i]) end
          out[1] = "call " .. table.concat(words, " ")
          uv.stop()
        end }))
        async:send("one", nil, "three")
        uv.run()
        async:close()
        uv.run()
        uv.new_timer()
        uv.walk(function(handle) out[#out + 1] = "walk " .. tostring(handle):match("^uv_(%a+)_t") end)
        return out
      end)
    end))
  end)

  it("runs functions in threads of its own", function()
    assert.same({ 42, 7 }, p.rows({}, function(env)
      return env:from_values { 1 }:flat_map(function()
        local out = {}
        local work = uv.new_work(function(n) return n * 2 end, function(n) out[1] = n end)
        work:queue(21)
        uv.run()
        local path = os.tmpname()
        local thread = uv.new_thread(function(to)
          local f = io.open(to, "w")
          f:write("7")
          f:close()
        end, path)
        thread:join()
        local f <close> = io.open(path)
        out[2] = f:read("n")
        os.remove(path)
        return out
      end)
    end))
  end)

  it("outlives the coroutine that asked for it first", function()
    assert.same({ 1, 2 }, p.rows({}, function(env)
      return env:from_values { 1, 2 }:map(function(n)
        local luv = coroutine.wrap(function() return require "luv" end)()
        for _ = 1, 5 do collectgarbage() end
        local seen
        luv.new_timer():start(0, 0, function() seen = n luv.stop() end)
        luv.run()
        return seen
      end)
    end))
  end)

  it("emits from callbacks, in order", function()
    assert.same({ 1, 2, 3, 4 }, p.rows({}, function(env)
      return env:from_values { 1, 3 }:flat_map(function(n, ctx)
        ctx:emit(n)
        uv.new_timer():start(0, 0, function() ctx:emit(n + 1) uv.stop() end)
        uv.run()
      end):map(function(v) return v end)
    end))
  end)
end)

describe("the loop of a slot", function()
  -- A source that reads nothing before a timer has fired, which nobody but the slot runs.
  local function timed_source(wait_ms, start)
    return { uid = "timed", splits = function() return { 1 } end, read = function(ctx, _, at)
      if not at then
        start()
        ctx:emit("begun")
        return 1, wait_ms
      end
      return nil
    end }
  end

  it("runs by itself: callbacks come while the job has other things to do", function()
    local rows = p.rows({}, function(env)
      local seen, asked = 0, 0
      return env:source { uid = "busy", splits = function() return { 1 } end, read = function(ctx, _, at)
        local luv = require "luv"
        if not at then luv.new_timer():start(1, 1, function() seen = seen + 1 end) end
        asked = asked + 1
        if seen >= 3 then
          ctx:emit(seen >= 3 and asked > 3)
          return nil
        end
        return 1 -- at once again: the slot never sleeps
      end }
    end)
    assert.same({ true }, rows)
  end)

  it("and while it sleeps, in which it wakes for nothing else", function()
    local rows = p.rows({}, function(env)
      local count = 0
      return env:from_values { 1 }:map(function(v)
        local timer = require("luv").new_timer()
        local function later(n)
          timer:start(1, 0, function()
            count = n
            if n < 20 then later(n + 1) end
          end)
        end
        later(1)
        return v
      end):union(env:source(timed_source(100, function() end))):map(function(v)
        return v
      end):union(env:source { uid = "last", splits = function() return { 1 } end, read = function(ctx)
        if count == 20 then ctx:emit("counted") return nil end
        return 1, 20
      end })
    end)
    table.sort(rows, function(a, b) return tostring(a) < tostring(b) end)
    assert.same({ 1, "begun", "counted" }, rows)
  end)

  it("ends well with handles that are about to close", function()
    assert.same({ 1 }, p.rows({}, function(env)
      return env:from_values { 1 }:process {
        uid = "closes", on_element = function(ctx, v) ctx:emit(v) end,
        close = function()
          local luv = require "luv"
          local timer, pipe = luv.new_timer(), luv.new_pipe(false)
          timer:start(0, 0, function() error("this is not called") end)
          timer:close()
          pipe:close(function() error("nor is this") end)
        end,
      }
    end))
  end)

  it("leaves handles that nobody waits for alone", function()
    assert.same({ "begun" }, p.rows({}, function(env)
      return env:source(timed_source(5, function()
        local timer = require("luv").new_timer()
        timer:start(1, 1, function() end)
        timer:unref()
      end))
    end))
  end)
end)

describe("an error in a callback of luv", function()
  -- What a job says whose map does `fn`, and whose operators before and after it do nothing.
  local function failure(fn, spec)
    return p.failure({}, function(env)
      env:from_values { 1 }:map(function(v) return v end):uid("before")
        :flat_map(fn, spec):uid("guilty"):map(function(v) return v end):uid("after")
    end)
  end

  local FILE = "spec/api/slot_luv_spec.lua:%d+: "

  it("fails the task, with place and traceback, and ends the loop", function()
    local message = failure(function()
      local timer = uv.new_timer()
      timer:start(0, 1, function() error("in the timer") end)
      uv.run() -- would never end: the timer repeats
      error("this is not reached")
    end)
    assert.matches("EUSER: guilty %(guilty%) 1/1: a callback of luv: " .. FILE .. "in the timer\nstack traceback:",
                   message)
    assert.not_matches("not reached", message)
  end)

  it("fails it also if the function catches what uv.run raises", function()
    local message = failure(function()
      uv.timer_start(uv.new_timer(), 0, 0, function() error("in the timer") end)
      local ok, text = pcall(uv.run)
      assert(not ok and text:find("in the timer", 1, true))
      return {}
    end)
    assert.matches("guilty %(guilty%) 1/1: a callback of luv: " .. FILE .. "in the timer", message)
  end)

  it("of every kind does", function()
    local kinds = {
      function() uv.fs_stat("/", function() error("boom") end) end,
      function() uv.new_idle():start(function() error("boom") end) end,
      function() uv.new_timer():close(function() error("boom") end) end,
      function() uv.getaddrinfo("127.0.0.1", nil, nil, function() error("boom") end) end,
      function() assert(uv.spawn("true", {}, function() error("boom") end)) end,
      function() uv.new_async(function() error("boom") end):send() end,
      function()
        uv.new_work(function() return 1 end, function() error("boom") end):queue()
      end,
      function() uv.new_timer():start(0, 0, setmetatable({}, { __call = function() error("boom") end })) end,
    }
    for i, register in ipairs(kinds) do
      local message = failure(function() register() uv.run() return {} end)
      assert.matches("guilty %(guilty%) 1/1: a callback of luv: " .. FILE .. "boom", message, nil, "kind " .. i)
    end
  end)

  it("may be any value", function()
    assert.matches("a callback of luv: %(error object is a table value%)", failure(function()
      uv.new_timer():start(0, 0, function() error({}) end)
      uv.run()
    end))
    assert.matches("a callback of luv: said so\n", failure(function()
      uv.new_timer():start(0, 0, function() error(setmetatable({}, { __tostring = function() return "said so" end })) end)
      uv.run()
    end))
    assert.matches("a callback of luv: an error whose object has no text was raised", failure(function()
      uv.new_timer():start(0, 0, function() error(setmetatable({}, { __tostring = error })) end)
      uv.run()
    end))
  end)

  it("in open fails it, too", function()
    assert.matches("guilty %(guilty%) 1/1: .*" .. FILE .. "boom", p.failure({}, function(env)
      env:from_values { 1 }:key_by(function(v) return v end):process {
        uid = "guilty", on_element = function() end,
        open = function()
          uv.new_timer():start(0, 0, function() error("boom") end)
          uv.run()
        end,
      }
    end))
  end)

  it("fails the operator that registered it, whoever runs the loop", function()
    local message = p.failure({ parallelism = 1 }, function(env)
      env:from_values { 1 }:map(function(v)
        uv.new_timer():start(0, 0, function() error("in the timer") end)
        return v
      end):uid("registers"):map(function(v)
        uv.run()
        return v
      end):uid("runs"):start_new_chain()
    end)
    assert.matches("EUSER: registers %(registers%) 1/1: a callback of luv: " .. FILE .. "in the timer", message)
  end)

  it("fails a callback's own task where that registered another", function()
    local message = failure(function()
      uv.new_timer():start(0, 0, function()
        uv.new_timer():start(0, 0, function() error("the inner one") end)
      end)
      uv.run()
    end)
    assert.matches("guilty %(guilty%) 1/1: a callback of luv: " .. FILE .. "the inner one", message)
  end)

  it("that a module registered when it was loaded fails the job: it is no operator's", function()
    local folder = p.folder()
    p.write(folder .. "/with_timer.lua", [[
      require("luv").new_timer():start(0, 0, function() error("in the module") end)
      return { value = 1 }
    ]])
    local out, err, code = p.script([[
      local sc = require "streamckpt"
      local env = sc.env { log = { level = "off" } }
      env:from_values { 1 }:map(function(v)
        local luv = require "luv"
        luv.run()
        return require("with_timer").value
      end):uid("late"):print()
      package.loaded.luv = nil -- the script's own loop would run the timer as well, and end the script
      local module = { value = 1 }
      package.loaded.with_timer = module
      local second = sc.env { log = { level = "off" } }
      second:from_values { 1 }:map(function(v)
        local value = module.value
        require("luv").run()
        return value
      end):uid("early"):print()
      io.write(tostring(select(2, pcall(second.execute, second))), "\n")
    ]], folder)
    assert.equals("", err)
    assert.equals(0, code)
    assert.matches("EUSER: a callback of luv, registered by a module: .*with_timer.lua:1: in the module", out)
  end)

  it("is got over by a restart, as any other", function()
    local folder = p.folder()
    local rows, result = p.rows({ id = "again", checkpoint = { interval = 1, dir = folder },
                                  restart = { strategy = "fixed_delay", attempts = 1, delay = 0 } },
      function(env)
        return env:source { uid = "numbers", splits = function() return { 0 } end, read = function(ctx, _, at)
          at = at or 0
          if at == 20 then return nil end
          if at == 10 then
            local listing <close> = io.popen("ls " .. folder .. "/again/*/_metadata 2>/dev/null")
            if not listing:read() then return at, 1 end
          end
          ctx:emit(at)
          return at + 1
        end }:map(function(v)
          uv.new_timer():start(0, 0, function()
            uv.stop()
            if v == 15 and not io.open(folder .. "/failed") then
              io.open(folder .. "/failed", "w"):close()
              error("once")
            end
          end)
          uv.run()
          return v
        end):uid("fails")
      end)
    local expected = {}
    for i = 0, 19 do expected[#expected + 1] = i end
    assert.same(expected, rows)
    assert.equals(1, result:status().restarts)
    assert.matches("a callback of luv: " .. FILE .. "once", result:status().error)
  end)
end)

describe("a slot without luv", function()
  it("says that there is none, as require does", function()
    local folder = p.folder()
    local out, err = p.script([[
      local sc = require "streamckpt"
      require "streamckpt.core"
      package.cpath = package.cpath:match("[^;]*build[^;]*")
      local env = sc.env { log = { level = "off" } }
      env:from_values { 1 }:map(function(v) return tostring(select(2, pcall(require, "luv"))) end):print()
      env:execute()
    ]], folder)
    assert.equals("", err)
    assert.matches("^\"module 'luv' not found:\\n\\tno file '[^\\]*luv.lua'\\n\\tno file", out)
  end)
end)
