local probe = require "streamckpt.probe"
local rig = require "support.rig"

local values, push = rig.values, rig.push

local function code_of(_, message, code) return code, message end

describe("binding: families", function()
  it("map emits what it returns", function()
    local r = rig.new("{ fn = function(v) return v * 2 end }", "map")
    assert.same({ 42 }, push(r, 21))
    assert.same({ 3.0 }, push(r, 1.5))
    assert.equal("float", math.type(push(r, 1.5)[1]))
  end)

  it("map that returns nil says what to use instead", function()
    local r = rig.new("{ fn = function() end }", "map")
    local code, message = code_of(r:push(1))
    assert.equal("EUSER", code)
    assert.truthy(message:find("map returned nil; use filter to drop", 1, true))
    assert.truthy(message:find("visits (u1) 2/4", 1, true))
    assert.truthy(message:find("record: 1", 1, true))
  end)

  it("map may return false", function()
    local r = rig.new("{ fn = function(v) return not v end }", "map")
    assert.same({ false }, push(r, true))
  end)

  it("map keeps the time of its input, and takes only the first result", function()
    local r = rig.new("{ fn = function(v) return v, 7 end }", "map")
    local events = assert(r:push("x", 1234))
    assert.equal(1, #events)
    assert.equal(1234, events[1].ts)
    assert.is_nil(assert(r:push("x"))[1].ts)
  end)

  it("filter goes by Lua's truth and emits the record itself", function()
    local r = rig.new("{ fn = function(v) return v.keep end }", "filter")
    assert.same({ { keep = 0, n = 1 } }, push(r, { keep = 0, n = 1 }))
    assert.same({}, push(r, { keep = false }))
    assert.same({}, push(r, { n = 1 }))
  end)

  it("flat_map emits the elements of an array, after what it emitted by ctx", function()
    local r = rig.new([[{ fn = function(v, ctx)
      ctx:emit("first")
      return { v, v + 1, v + 2 }
    end }]], "flat_map")
    assert.same({ "first", 1, 2, 3 }, push(r, 1))
  end)

  it("flat_map may return nothing or an empty table", function()
    local r = rig.new([[{ fn = function(v, ctx)
      if v == 1 then return end
      if v == 2 then return {} end
      ctx:emit(v)
    end }]], "flat_map")
    assert.same({}, push(r, 1))
    assert.same({}, push(r, 2))
    assert.same({ 3 }, push(r, 3))
  end)

  it("flat_map refuses what is no array", function()
    local r = rig.new("{ fn = function(v) if v == 1 then return 5 end return { a = 1 } end }",
                      "flat_map")
    local _, message = r:push(1)
    assert.truthy(message:find("flat_map returned a number", 1, true))
    _, message = r:push(2)
    assert.truthy(message:find("return { record } for a single record", 1, true))
  end)

  it("key_by gives the bytes of the key and leaves the record as it is", function()
    local r = rig.new("{ fn = function(v) return { v.a, v.b } end }", "key_by")
    local events = assert(r:push({ a = 1.0, b = "x" }, 5))
    assert.same({ a = 1.0, b = "x" }, events[1].value)
    assert.same({ 1, "x" }, events[1].key)
    assert.equal("integer", math.type(events[1].key[1]))
    assert.equal(5, events[1].ts)
  end)

  it("012. a nil key names the selector and the record", function()
    local r = rig.new("{ fn = function(v) return v.user end }", "key_by")
    local code, message = code_of(r:push({ id = 9 }))
    assert.equal("EUSER", code)
    assert.truthy(message:find("key_by", 1, true))
    assert.truthy(message:find("nil", 1, true))
    assert.truthy(message:find('"id"', 1, true))
  end)

  it("014. a table with names, a function or NaN is no key", function()
    local r = rig.new([[{ fn = function(v)
      return ({ { a = 1 }, print, 0/0, { 1, print } })[v]
    end, on_error = function() end }]], "key_by")
    for i = 1, 4 do assert.same({}, push(r, i)) end
  end)

  it("timestamps sets the time, floats floored", function()
    local r = rig.new("{ fn = function(v) return v.ts end }", "timestamps")
    assert.equal(7, assert(r:push { ts = 7 })[1].ts)
    assert.equal(-8, assert(r:push { ts = -7.5 })[1].ts)
    assert.equal(math.maxinteger, assert(r:push { ts = math.maxinteger })[1].ts)
    for _, bad in ipairs { "7", 1e300, 0 / 0, true } do
      local code, message = code_of(r:push { ts = bad })
      assert.equal("EUSER", code)
      assert.truthy(message:find("instead of milliseconds", 1, true))
    end
    assert.equal("EUSER", (code_of(r:push {})))
    assert.equal(9, assert(r:push { ts = 9 })[1].ts)
  end)

  it("sink calls its function and emits nothing", function()
    local r = rig.new([[{ fn = function(v, ctx)
      if v == "emit" then ctx:emit(1) end
      seen = (seen or 0) + 1
      if v == "tell" then error(seen, 0) end
    end }]], "sink")
    assert.same({}, push(r, 1))
    assert.same({}, push(r, 2))
    local _, message = r:push("tell")
    assert.truthy(message:find(": 3\n", 1, true))
    _, message = r:push("emit")
    assert.truthy(message:find("a sink has no main output", 1, true))
  end)

  it("knows its kinds and what they promise", function()
    for _, kind in ipairs { "map", "filter", "flat_map", "key_by", "timestamps", "process", "reduce" } do
      assert.same({ is_source = false, replayable = true, exactly_once = true },
                  probe.binding_type(kind))
    end
    assert.is_false(probe.binding_type("sink").exactly_once)
    assert.is_true(probe.binding_type("source").is_source)
    assert.is_true(probe.binding_type("generator").is_source)
    assert.is_nil(probe.binding_type("window"))
  end)
end)

describe("binding: emitting", function()
  it("means what it says: a change after emit is not seen", function()
    local spec = [[{ fn = function(v, ctx)
      local t = { n = 1 }
      ctx:emit(t); t.n = 2; ctx:emit(t); t.n = 3
    end }]]
    local r = rig.new(spec, "flat_map")
    assert.same({ { n = 1 }, { n = 2 } }, push(r, 0))
    r = rig.new(spec, { kind = "flat_map", chained = {} })
    assert.same({ { n = 1 }, { n = 2 } }, values(assert(r:push(0)), "write"))
  end)

  it("means it for a chained receiver too", function()
    local r = rig.new({ [[{ fn = function(v, ctx)
      local t = { n = 1 }
      ctx:emit(t); t.n = 2; ctx:emit(t)
    end }]], "{ fn = function(t) return t.n end }" }, { "flat_map", "map" })
    assert.same({ 1, 2 }, values(assert(r:push(0)), "emit", 2))
  end)

  it("hands tables on by reference within a chain", function()
    local r = rig.new({ [[{ fn = function(v)
                          last = { v = v, f = function() return "kept" end }
                          return last
                        end }]],
                        "{ fn = function(t) return (t == last) and t.f() .. t.v end }" }, { "map", "map" })
    local events = assert(r:push("!"))
    assert.same({ "kept!" }, values(events, "emit", 2))
    assert.truthy(events[1].error:find("value.f", 1, true)) -- it could not have been stored
  end)

  it("a null from inside a value is nil on its own, chained or not", function()
    local spec = { "{ fn = function(v) return v.x end }", "{ fn = function(v) return type(v) end }" }
    local r = rig.new(spec, { "map", "map" })
    assert.same({ "nil" }, values(assert(r:push { x = probe.binding_null }), "emit", 2))
  end)

  it("encodes at once for an exchange, and waits where it is full", function()
    local r = rig.new([[{ fn = function(v, ctx)
      for i = 1, 3 do ctx:emit(i) end
      return { "end" }
    end }]], { kind = "flat_map", chained = {} })
    r:full(true)
    local how = {}
    for _, e in ipairs(assert(r:push(0))) do how[#how + 1] = e.how .. tostring(e.value) end
    assert.same({ "write1", "blockednil", "write2", "blockednil", "write3", "blockednil",
                  "writeend", "blockednil" }, how)
  end)

  it("goes on over a full exchange where it cannot be suspended, and waits afterwards", function()
    local r = rig.new([[{ fn = function(v, ctx)
      ;("abc"):gsub(".", function(c) ctx:emit(c) end)
    end }]], { kind = "flat_map", chained = {} })
    r:full(true)
    local how = {}
    for _, e in ipairs(assert(r:push(0))) do how[#how + 1] = e.how .. tostring(e.value) end
    assert.same({ "writea", "writeb", "writec", "blockednil" }, how)
  end)

  it("fails the task when the exchange fails, though the user caught it", function()
    local r = rig.new("{ fn = function(v, ctx) pcall(ctx.emit, ctx, v) return {} end, on_error = 'skip' }",
                      { kind = "flat_map", chained = {} })
    r:failing(true)
    local code, message = code_of(r:push(1))
    assert.equal("EIO", code)
    assert.truthy(message:find("the exchange is broken", 1, true))
  end)

  it("works in a sort comparator, a gsub callback, a metamethod and pcall, in order", function()
    local r = rig.new([[{ fn = function(v, ctx)
      ctx:emit("begin")
      local t = { 2, 1 }
      table.sort(t, function(a, b) ctx:emit("sort") return a < b end)
      ctx:emit("between")
      ;("xy"):gsub(".", function(c) ctx:emit(c) end)
      pcall(function() ctx:emit("pcall") error("caught") end)
      local m = setmetatable({}, { __index = function(_, k) ctx:emit(k) return 1 end })
      local _ = m.field
      return { "end" }
    end }]], "flat_map")
    local got = push(r, 0)
    local sorts = 0
    while got[2] == "sort" do
      table.remove(got, 2)
      sorts = sorts + 1
    end
    assert.is_true(sorts >= 1)
    assert.same({ "begin", "between", "x", "y", "pcall", "field", "end" }, got)
  end)

  it("works in a coroutine of the user's own, whose yields stay its own", function()
    local r = rig.new([[{ fn = function(v, ctx)
      local steps = {}
      local co = coroutine.wrap(function()
        for i = 1, 3 do ctx:emit("in " .. i); coroutine.yield(i) end
        return "over"
      end)
      for _ = 1, 4 do steps[#steps + 1] = co() end
      ctx:emit("out")
      return { table.concat(steps, " ") }
    end }]], "flat_map")
    assert.same({ "in 1", "in 2", "in 3", "out", "1 2 3 over" }, push(r, 0))
  end)

  it("copies in the overflow list: a later change is not seen", function()
    local r = rig.new([[{ fn = function(v, ctx)
      local t = { n = 0 }
      ;("ab"):gsub(".", function() t.n = t.n + 1; ctx:emit(t) end)
      t.n = 9
      ctx:emit(t)
    end }]], "flat_map")
    assert.same({ { n = 1 }, { n = 2 }, { n = 9 } }, push(r, 0))
  end)

  it("stamps with the record's time, or the one that is given", function()
    local r = rig.new([[{ fn = function(v, ctx)
      ctx:emit("own"); ctx:emit("given", 7); ctx:emit("floored", 8.9)
      ;("z"):gsub(".", function() ctx:emit("overflow", 9) end)
    end }]], "flat_map")
    local ts = {}
    for _, e in ipairs(assert(r:push(0, 5))) do ts[#ts + 1] = e.ts end
    assert.same({ 5, 7, 8, 9 }, ts)
  end)

  it("goes to side outputs by their names", function()
    local op = { kind = "flat_map", outputs = { "main", "late", "odd" } }
    local r = rig.new([[{ fn = function(v, ctx)
      ctx:side("odd", 1); ctx:side("late", 2, 77); ctx:emit(3)
    end }]], op)
    local events = assert(r:push(0))
    assert.same({ 2, 1, 0 }, { events[1].output, events[2].output, events[3].output })
    assert.same({ 1, 2, 3 }, values(events))
    assert.equal(77, events[2].ts)
    r = rig.new("{ fn = function(v, ctx) ctx:side('lost', 1) end }", op)
    local code, message = code_of(r:push(0))
    assert.equal("EUSER", code)
    assert.truthy(message:find("no side output 'lost'", 1, true))
  end)

  it("refuses nil, dots, a bad time and what cannot be sent, at the caller's line", function()
    local function message_of(call, op)
      local r = rig.new("{ fn = function(v, ctx) " .. call .. " end }",
                        op or { kind = "flat_map", chained = {} })
      return (select(2, r:push(0)))
    end
    assert.truthy(message_of("ctx:emit(nil)")
      :find("source:1: ctx:emit(value): nil cannot be emitted", 1, true))
    assert.truthy(message_of("ctx.emit(5)"):find("call it with a colon: ctx:emit(value)", 1, true))
    assert.truthy(message_of("ctx:emit(1, 'x')"):find("must be a number of milliseconds", 1, true))
    assert.truthy(message_of("ctx:emit(1, 0/0)"):find("fits 64 bits", 1, true))
    assert.truthy(message_of("ctx:emit { a = { print } }"):find("value.a[1]", 1, true))
  end)

  it("goes on after a refusal that the user caught", function()
    local r = rig.new([[{ fn = function(v, ctx)
      local ok, message = pcall(ctx.emit, ctx, print)
      ctx:emit { ok = ok, says = message:find("function") ~= nil }
    end }]], { kind = "flat_map", chained = {} })
    assert.same({ { ok = false, says = true } }, values(assert(r:push(0)), "write"))
  end)

  it("gives fields of its values to core without encoding the rest", function()
    local r = rig.new("{ fn = function(v) return { ts = v, f = print, m = { 1, 2 } } end }",
                      { kind = "map", field = "ts" })
    assert.equal(12, assert(r:push(12))[1].field)
    r = rig.new("{ fn = function(v) return { m = { 1, 2 } } end }", { kind = "map", field = "m" })
    assert.same({ 1, 2 }, assert(r:push(12))[1].field)
    assert.same({ 1, 2 }, assert(r:push(12))[1].field)
    r = rig.new("{ fn = function(v) return v end }", { kind = "map", field = "m" })
    assert.is_nil(assert(r:push { n = 1 })[1].field)
    assert.is_nil(assert(r:push("text"))[1].field)
  end)

  it("random emissions keep their order, wherever they come from", function()
    local seed = os.time()
    local r = rig.new([[{ fn = function(plan, ctx)
      local n = 0
      local function emit() n = n + 1; ctx:emit(n) end
      for _, kind in ipairs(plan) do
        if kind == 1 then emit()
        elseif kind == 2 then ("ab"):gsub(".", emit)
        elseif kind == 3 then coroutine.wrap(emit)()
        elseif kind == 4 then pcall(emit)
        elseif kind == 5 then table.sort({ 1, 2 }, function(a, b) emit() return a < b end)
        end
      end
      ctx:emit(-n)
    end }]], "flat_map")
    math.randomseed(seed)
    for _ = 1, 200 do
      local plan = {}
      for i = 1, math.random(1, 12) do plan[i] = math.random(5) end
      local got = push(r, plan)
      for i = 1, #got - 1 do assert(got[i] == i, "out of order, seed " .. seed) end
      assert(got[#got] == -(#got - 1), "something is missing, seed " .. seed)
    end
  end)
end)

describe("binding: ctx", function()
  it("tells who and when", function()
    local r = rig.new([[{ fn = function(v, ctx)
      return { ctx.name, ctx.uid, ctx.subtask, ctx.parallelism, ctx.timestamp or "none",
               ctx.watermark == math.mininteger and "none" or ctx.watermark, ctx:now(), tostring(ctx) }
    end }]], "map")
    r:time(99)
    assert.same({ "visits", "u1", 1, 4, "none", "none", 99, "ctx of visits (u1) 2/4" }, push(r, 0)[1])
    r:watermark(50)
    local got = push(r, 0, 60)[1]
    assert.equal(60, got[5])
    assert.equal(50, got[6])
  end)

  it("refuses fields that it does not have", function()
    local r = rig.new("{ fn = function(v, ctx) if v == 1 then return ctx.ky end ctx.mine = 1 end }", "map")
    assert.truthy(select(2, r:push(1)):find("ctx has no field 'ky'", 1, true))
    assert.truthy(select(2, r:push(2)):find("no field 'mine' to set", 1, true))
  end)

  it("is refused in another operator's function, and once its own has ended", function()
    local r = rig.new({ "{ fn = function(v, ctx) kept = ctx; kept_emit = ctx.emit return v end }",
                        "{ fn = function(v) local ok, m = pcall(kept_emit, kept, v) return m end }" },
                      { "map", "map" })
    local got = values(assert(r:push(1)), "emit", 2)
    assert.truthy(got[1]:find("used outside of a call of its own operator", 1, true))

    r = rig.new({ "{ fn = function(v) local ok, m = pcall(kept_emit, kept, v) return m end }",
                  "{ open = function(ctx) kept = ctx; kept_emit = ctx.emit end, fn = print }" },
                { "map", "map" })
    r:end_operator(2)
    assert.truthy(push(r, 1)[1]:find("closed, because its operator has ended", 1, true))
  end)

  it("open runs once before the records, close at the end; neither emits", function()
    local r = rig.new([[{
      open = function(ctx) prefix = ctx.name .. ":" end,
      fn = function(v) return prefix .. v end,
    }]], "map")
    assert.same({ "visits:x" }, push(r, "x"))
    local _, message, code = rig.try("{ open = function(ctx) ctx:emit(1) end, fn = print }", "map")
    assert.equal("EUSER", code)
    assert.truthy(message:find("open: source:1: ctx:emit(value): nothing can be emitted in open and close",
                               1, true))
    _, message, code = rig.try("{ open = function(ctx) coroutine.yield() end, fn = print }", "map")
    assert.equal("EUSER", code)
    assert.truthy(message:find("coroutine.yield", 1, true))
  end)

  it("an error in close goes to the log only", function()
    local log = os.tmpname()
    local r = rig.new("{ close = function(ctx) error('close ' .. ctx.name) end, fn = print }", "map", log)
    r:close()
    local file = assert(io.open(log))
    local text = file:read("a")
    file:close()
    os.remove(log)
    assert.truthy(text:find("close visits", 1, true))
    assert.truthy(text:find("ERROR", 1, true))
  end)
end)

describe("binding: specs that cannot be", function()
  local function refused(spec, kind)
    local r, message = rig.try(spec, kind)
    assert.is_nil(r)
    return message
  end

  it("are refused with a sentence when the operator is made", function()
    assert.truthy(refused("{}", "map"):find("'fn' of map must be a function, not a nil", 1, true))
    assert.truthy(refused("{ fn = {} }", "map"):find("must be a function, not a table", 1, true))
    assert.truthy(refused("{ fn = print, on_error = 5 }", "map")
      :find('on_error must be "skip" or a function', 1, true))
    assert.truthy(refused("{ fn = print, on_error = 'ignore' }", "map"):find("on_error must be", 1, true))
    assert.truthy(refused("{ fn = print, open = 1 }", "map"):find("'open' of map", 1, true))
    assert.truthy(refused("{ on_element = print, state = 5 }", "process")
      :find("'state' must be a table", 1, true))
    assert.truthy(refused("{ on_element = print, state = { x = { kind = 'list' } } }", "process")
      :find("state 'x' must be of kind value or map, not list", 1, true))
    assert.truthy(refused("{ on_element = print, state = { x = {kind='value'} } }", "process")
      :find("state 'x' needs a keyed stream: put key_by before", 1, true))
    assert.truthy(refused("{ fn = print }", "reduce"):find("reduce needs a keyed stream", 1, true))
    assert.truthy(refused("nil", "map"):find("no operator 1", 1, true))
    assert.truthy(refused("{ count = -1 }", "generator"):find("'count' of a generator", 1, true))
    assert.truthy(refused("{ rate = 0 }", "generator"):find("'rate' of a generator", 1, true))
  end)
end)
