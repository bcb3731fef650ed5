-- What each function of a stream does, as a script sees it.
local p = require "support.pipeline"

after_each(p.clean)

describe("map", function()
  it("turns each value into another one, in order", function()
    assert.same({ 2, 4, 6 }, p.rows({}, function(env)
      return env:from_values { 1, 2, 3 }:map(function(n) return n * 2 end)
    end))
  end)

  it("may turn values into false, and gives its function a context", function()
    assert.same({ false, true }, p.rows({}, function(env)
      return env:from_values { 1, 2 }:map(function(n, ctx)
        return n > 1 and ctx.subtask == 0 and ctx.parallelism == 1
      end)
    end))
  end)

  it("refuses nil, and says what to do", function()
    local message = p.failure({}, function(env)
      return env:from_values { 7 }:map(function() end):uid("half")
    end)
    assert.matches("map returned nil; use filter to drop", message, 1, true)
    assert.matches("record: 7", message, 1, true)
    assert.matches("half", message, 1, true)
  end)

  it("may emit more than it returns, before it", function()
    assert.same({ "a", 1, "b", 2 }, p.rows({}, function(env)
      return env:from_values { "a", "b" }:map(function(v, ctx)
        ctx:emit(v)
        return v:byte() - 96
      end)
    end))
  end)
end)

describe("filter", function()
  it("keeps what is neither false nor nil", function()
    assert.same({ 2, 3 }, p.rows({}, function(env)
      return env:from_values { 1, 2, 3, 4 }:filter(function(n)
        if n == 1 then return false end
        if n == 4 then return nil end
        return 0
      end)
    end))
  end)

  it("passes on the value as it came, also one that it changed", function()
    assert.same({ { n = 1 } }, p.rows({}, function(env)
      return env:from_values { { n = 1 } }:filter(function(v) return v.n == 1 end)
    end))
  end)
end)

describe("flat_map", function()
  it("emits the elements of what it returns, and what it emits", function()
    assert.same({ "a", "b", "c", "d" }, p.rows({}, function(env)
      return env:from_values { "a b", "c d", "" }:flat_map(function(line)
        local words = {}
        for word in line:gmatch("%a") do words[#words + 1] = word end
        return words
      end)
    end))
    assert.same({ "a", "b", "c", "d" }, p.rows({}, function(env)
      return env:from_values { "a b", "c d", "" }:flat_map(function(line, ctx)
        for word in line:gmatch("%a") do ctx:emit(word) end
      end)
    end))
  end)

  it("emits from a callback that cannot be suspended", function()
    assert.same({ "a", "b", "end" }, p.rows({}, function(env)
      return env:from_values { "a b" }:flat_map(function(line, ctx)
        line:gsub("%a", function(word) ctx:emit(word) end)
        ctx:emit("end")
      end)
    end))
  end)

  it("refuses a single record that was not wrapped", function()
    local message = p.failure({}, function(env)
      return env:from_values { 1 }:flat_map(function(n) return { n = n } end)
    end)
    assert.matches("return { record } for a single record", message, 1, true)
  end)
end)

describe("process", function()
  it("emits any number of values, and may be only a function", function()
    assert.same({ 1, 1, 2, 2 }, p.rows({}, function(env)
      return env:from_values { 1, 2 }:process(function(ctx, n)
        ctx:emit(n)
        ctx:emit(n)
      end)
    end))
  end)

  it("copies what it emits when it emits it", function()
    for _, chained in ipairs { true, false } do
      assert.same({ { x = 1 }, { x = 2 } }, p.rows({}, function(env)
        local s = env:from_values { 0 }:process(function(ctx)
          local t = { x = 1 }
          ctx:emit(t)
          t.x = 2
          ctx:emit(t)
        end)
        return chained and s or s:rebalance():map(function(v) return v end)
      end))
    end
  end)

  it("opens and closes once in each task", function()
    local folder = p.folder()
    p.run({ parallelism = 2 }, function(env)
      env:from_values { 1, 2, 3 }:rebalance():process {
        uid = "p",
        open = function(ctx) io.open(folder .. "/opened-" .. ctx.subtask, "w"):close() end,
        close = function(ctx) io.open(folder .. "/closed-" .. ctx.subtask, "w"):close() end,
        on_element = function() end,
      }
    end)
    assert.equals(2, #p.files(folder, "^opened%-[01]$"))
    assert.equals(2, #p.files(folder, "^closed%-[01]$"))
  end)

  it("emits nothing in open and close", function()
    local message = p.failure({}, function(env)
      return env:from_values { 1 }:process {
        uid = "eager", open = function(ctx) ctx:emit(0) end, on_element = function() end,
      }
    end)
    assert.matches("nothing can be emitted in open and close", message, 1, true)
  end)
end)

describe("key_by and reduce", function()
  it("fold the values of each key, one result a value", function()
    local rows = p.rows({ parallelism = 2 }, function(env)
      return env:from_values { "a", "b", "a", "a", "b" }
        :map(function(w) return { word = w, n = 1 } end)
        :key_by("word")
        :reduce(function(a, b) return { word = a.word, n = a.n + b.n } end):uid("counts")
    end)
    local last = { a = 0, b = 0 }
    assert.equals(5, #rows)
    for _, row in ipairs(rows) do
      assert.equals(last[row.word] + 1, row.n)
      last[row.word] = row.n
    end
    assert.same({ a = 3, b = 2 }, last)
  end)

  it("take several fields, in their order, as one key", function()
    local rows = p.sorted({ parallelism = 2 }, function(env)
      return env:from_values { { c = "x", d = 1 }, { c = "x", d = 2 }, { c = "x", d = 1 } }
        :key_by { "c", "d" }
        :process { uid = "k", state = { n = require("streamckpt").value() }, on_element = function(ctx)
          local n = (ctx.state.n:get() or 0) + 1
          ctx.state.n:set(n)
          ctx:emit(("%s/%d=%d"):format(ctx.key[1], ctx.key[2], n))
        end }
    end)
    assert.same({ "x/1=1", "x/1=2", "x/2=1" }, rows)
  end)

  it("take a function", function()
    assert.same({ "even 2", "even 6", "odd 1", "odd 4" }, p.sorted({ parallelism = 3 }, function(env)
      return env:from_values { 1, 2, 3, 4 }
        :key_by(function(n) return n % 2 == 0 and "even" or "odd" end)
        :reduce(function(a, b) return a + b end):uid("sum")
        :map(function(n) return (n % 2 == 0 and n ~= 4 and "even " or "odd ") .. n end)
    end))
  end)

  it("refuse nil as the result of a fold", function()
    assert.matches("reduce returned nil", p.failure({}, function(env)
      return env:from_values { 1, 2 }:key_by(function() return 1 end):reduce(function() end):uid("r")
    end), 1, true)
  end)
end)

describe("union", function()
  it("has the values of all its streams", function()
    assert.same({ 1, 2, 3, 4 }, p.sorted({}, function(env)
      local a, b, c = env:from_values { 1 }, env:from_values { 2, 3 }, env:from_values { 4 }
      return a:union(b, c)
    end))
  end)

  it("of a stream with itself has each value twice", function()
    assert.same({ 1, 1, 2, 2 }, p.sorted({}, function(env)
      local a = env:from_values { 1, 2 }
      return a:union(a)
    end))
  end)
end)

describe("rebalance", function()
  it("deals values to tasks in turn", function()
    local rows = p.sorted({ parallelism = 4 }, function(env)
      return env:from_values { 1, 2, 3, 4, 5, 6, 7, 8 }:rebalance()
        :map(function(_, ctx) return ctx.subtask end)
    end)
    assert.same({ 0, 0, 1, 1, 2, 2, 3, 3 }, rows)
  end)
end)

describe("broadcast", function()
  it("gives each value to every task", function()
    assert.same({ "0a", "0b", "1a", "1b", "2a", "2b" }, p.sorted({ parallelism = 3 }, function(env)
      return env:from_values { "a", "b" }:broadcast():map(function(v, ctx) return ctx.subtask .. v end)
    end))
  end)
end)

describe("forward", function()
  it("keeps values in the task of the same number", function()
    assert.same({ true, true, true, true }, p.rows({ parallelism = 2 }, function(env)
      return env:from_values { 1, 2, 3, 4 }:rebalance():map(function(_, ctx) return ctx.subtask end)
        :forward():map(function(n, ctx) return n == ctx.subtask end):start_new_chain()
    end))
  end)

  it("is refused between different parallelisms, with both numbers", function()
    local message = p.failure({ parallelism = 2 }, function(env)
      env:from_values { 1 }:forward():map(function(v) return v end):uid("m"):print()
    end)
    assert.matches("forward from from_values", message, 1, true)
    assert.matches("to map 'm' needs the same parallelism on both sides, not 1 and 2", message, 1, true)
  end)
end)

describe("sink and to", function()
  it("call a function for each value", function()
    local folder = p.folder()
    p.run({}, function(env)
      local s = env:from_values { "a", "b" }
      s:sink { uid = "s", open = function(ctx) _G.ctx_file = assert(io.open(folder .. "/" .. ctx.uid, "w")) end,
        fn = function(v) _G.ctx_file:write(v) end, close = function() _G.ctx_file:close() end }
      s:to(function(v) local f = io.open(folder .. "/" .. v, "w") f:write(v .. v) f:close() end)
    end)
    assert.equals("ab", p.read(folder .. "/s"))
    assert.equals("aa", p.read(folder .. "/a"))
    assert.equals("bb", p.read(folder .. "/b"))
  end)

  it("emit nothing", function()
    assert.matches("a sink has no main output", p.failure({}, function(env)
      env:from_values { 1 }:sink(function(v, ctx) ctx:emit(v) end)
    end), 1, true)
  end)
end)

describe("to_file", function()
  it("writes lines of JSON, or the values as lines", function()
    local folder = p.folder()
    p.run({}, function(env)
      local s = env:from_values { { b = 1, a = "x" }, { a = "y", b = 2 } }
      s:to_file(folder .. "/json"):uid("json")
      s:map(function(v) return v.a end):to_file(folder .. "/lines", { format = "lines" }):uid("lines")
    end)
    assert.same({ '{"a":"x","b":1}', '{"a":"y","b":2}' }, p.parts(folder .. "/json"))
    assert.same({ "x", "y" }, p.parts(folder .. "/lines"))
  end)

  it("refuses a folder that holds output of this job, unless told what to do", function()
    local folder = p.folder()
    local function run(existing)
      return p.run({ id = "again" }, function(env)
        env:from_values { 1 }:to_file(folder, { existing = existing }):uid("out")
      end)
    end
    run()
    assert.has_error(function() run() end)
    assert.same({ "1" }, p.parts(folder))
    run("append")
    assert.same({ "1", "1" }, p.parts(folder))
    run("overwrite")
    assert.same({ "1" }, p.parts(folder))
  end)
end)

describe("settings", function()
  it("name operators in metrics, and say how wide they are", function()
    local _, result = p.rows({ parallelism = 2 }, function(env)
      return env:from_values { 1, 2, 3 }:uid("source")
        :rebalance():map(function(v) return v end):uid("wide"):name("a wide one"):parallelism(3)
    end)
    local tasks = {}
    for _, row in ipairs(result:metrics()) do
      tasks[row.uid] = (tasks[row.uid] or 0) + 1
      if row.uid == "wide" then assert.equals("a wide one", row.name) end
    end
    assert.same({ source = 1, wide = 3, rows = 2 }, tasks)
  end)

  it("cut chains where they are told to, and change no result", function()
    for _, setting in ipairs { "start_new_chain", "disable_chaining" } do
      assert.same({ 2, 3 }, p.rows({}, function(env)
        local s = env:from_values { 1, 2 }:map(function(v) return v + 1 end)
        return s[setting](s):filter(function() return true end)
      end))
    end
  end)
end)
