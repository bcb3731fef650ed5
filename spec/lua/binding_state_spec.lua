local rig = require "support.rig"

local push, values = rig.push, rig.values

local function process(spec)
  return rig.new(spec, { kind = "process", keyed = true })
end

-- An operator that does what its records say: each is Lua source of a function body with ctx, whose
-- results are emitted as one array.
local function interpreter(states, more)
  return process(("{ state = { %s }, %s on_element = function(ctx, e) " ..
    "local s = ctx.state local r = table.pack(assert(load('local ctx, s = ... ' .. e))(ctx, s)) " ..
    "for i = 1, r.n do if r[i] == nil then r[i] = 'nil' end end " ..
    "ctx:emit(#r > 0 and { table.unpack(r, 1, r.n) } or 'nothing') end }"):format(states, more or ""))
end

local VALUE = "v = { kind = 'value' }, w = { kind = 'value' }"
local MAP = "m = { kind = 'map' }"

describe("binding: value state", function()
  it("021. value default and clear", function()
    local r = interpreter(VALUE)
    assert.same({ { "nil" } }, push(r, "return s.v:get()", nil, "k"))
    assert.same({ { 5 } }, push(r, "s.v:set(5) return s.v:get()", nil, "k"))
    assert.equal(1, r:entries())
    assert.same({ { "nil" } }, push(r, "s.v:clear() return s.v:get()", nil, "k"))
    local code = "s.v:set(7) local x = s.v:get() s.v:set(nil) return x, s.v:get()"
    assert.same({ { 7, "nil" } }, push(r, code, nil, "k"))
    assert.equal(0, r:entries())
  end)

  it("022. state is scoped by key and by name", function()
    local r = interpreter(VALUE)
    push(r, "s.v:set(1) s.w:set(10)", nil, "k1")
    push(r, "s.v:set(2)", nil, "k2")
    assert.same({ { 1, 10 } }, push(r, "return s.v:get(), s.w:get()", nil, "k1"))
    assert.same({ { 2, "nil" } }, push(r, "return s.v:get(), s.w:get()", nil, "k2"))
    push(r, "s.v:clear()", nil, "k1")
    assert.same({ { "nil", 10 } }, push(r, "return s.v:get(), s.w:get()", nil, "k1"))
    assert.same({ { 2 } }, push(r, "return s.v:get()", nil, "k2"))
  end)

  it("023. access without current key", function()
    local _, message, code = rig.try([[{ state = { v = { kind = "value" } },
      open = function(ctx) return ctx.state.v:get() end, on_element = print }]],
      { kind = "process", keyed = true })
    assert.equal("EUSER", code)
    assert.truthy(message:find("no current key", 1, true))
    _, message = rig.try("{ open = function(ctx) return ctx.key end, on_element = print }",
                         { kind = "process", keyed = true })
    assert.truthy(message:find("ctx.key: no current key", 1, true))
    local r = rig.new([[{ on_element = function(ctx) ctx.timers:event_time(1) end,
                          on_timer = print }]], "process")
    assert.truthy(select(2, r:push(1)):find("no current key", 1, true))
  end)

  it("015. 1 and 1.0 are one key", function()
    local r = interpreter(VALUE)
    push(r, "s.v:set((s.v:get() or 0) + 1)", nil, 1)
    push(r, "s.v:set((s.v:get() or 0) + 1)", nil, 1.0)
    assert.same({ { 2 } }, push(r, "return s.v:get()", nil, 1))
    assert.equal(1, r:entries())
  end)

  it("values keep their types, and a copy is kept", function()
    local r = interpreter(VALUE)
    assert.same({ { 1, 2.0 } }, push(r, [[
      local t = { a = 1, b = { 2.0 } }
      s.v:set(t)
      t.a = 9
      local got = s.v:get()
      return got.a, got.b[1] ]], nil, "k"))
    local got = push(r, "return math.type(s.v:get().a), math.type(s.v:get().b[1])", nil, "k")
    assert.same({ { "integer", "float" } }, got)
    assert.same({ { false } }, push(r, "s.w:set(false) return s.w:get()", nil, "k"))
  end)

  it("refuses what cannot be stored, at the caller's line, and keeps the old value", function()
    local r = interpreter(VALUE)
    push(r, "s.v:set(1)", nil, "k")
    local code = "local ok, m = pcall(s.v.set, s.v, { f = print }) return ok, m, s.v:get()"
    local got = push(r, code, nil, "k")[1]
    assert.is_false(got[1])
    assert.truthy(got[2]:find("value.f", 1, true))
    assert.equal(1, got[3])
  end)

  it("names mistakes", function()
    local r = interpreter(VALUE)
    local function message(code)
      return (select(2, r:push(code, nil, "k")))
    end
    assert.truthy(message("return s.x:get()")
      :find("no state 'x' is declared in the operator's 'state'; declared are: v, w", 1, true))
    assert.truthy(message("return s.v.get()"):find("call it with a colon: ctx.state.NAME:get()", 1, true))
    assert.truthy(message("return s.v:add(1)"):find("ctx.state.v has no method 'add'", 1, true))
    assert.truthy(message("return s.w.get(s.v)"):find("call it with a colon", 1, true))
    assert.truthy(message("ctx.state.x = 1"):find("no field 'x' to set", 1, true))
    -- It would stand there until the next restart, for all keys.
    assert.truthy(message("ctx.state.v = 1"):find("ctx.state.v cannot be assigned to: call ctx.state.v:set(...)", 1, true))
    assert.same({ { "ctx.state: v w" } }, push(r, [[
      local names = {}
      for name in pairs(ctx.state) do names[#names + 1] = name end
      table.sort(names)
      return tostring(ctx.state) .. ": " .. table.concat(names, " ")]], nil, "k"))
    assert.same({ { "ctx.state.v" } }, push(r, "return tostring(s.v)", nil, "k"))
  end)

  it("ctx.key is the current key", function()
    local r = interpreter(VALUE)
    assert.same({ { "k" } }, push(r, "return ctx.key", nil, "k"))
    assert.same({ { 3 } }, push(r, "return ctx.key", nil, 3.0))
    assert.same({ { { 1, "x" } } }, push(r, "return ctx.key", nil, { 1, "x" }))
  end)

  it("random histories agree with a plain table", function()
    local seed = os.time()
    math.randomseed(seed)
    local r = interpreter(VALUE)
    local model = {}
    for _ = 1, 300 do
      local key, op = math.random(5), math.random(3)
      if op == 1 then
        local value = math.random(100)
        push(r, "s.v:set(" .. value .. ")", nil, key)
        model[key] = value
      elseif op == 2 then
        push(r, "s.v:clear()", nil, key)
        model[key] = nil
      end
      local got = push(r, "return s.v:get()", nil, key)[1][1]
      assert(got == (model[key] or "nil"), "differs from the model, seed " .. seed)
    end
  end)
end)

describe("binding: map state", function()
  it("026. map basic", function()
    local r = interpreter(MAP)
    push(r, "s.m:set('a', 1) s.m:set('b', 2)", nil, "k")
    assert.same({ { "nil" } }, push(r, "return s.m:get('c')", nil, "k"))
    push(r, "s.m:remove('a')", nil, "k")
    assert.same({ { false, true } }, push(r, "return s.m:has('a'), s.m:has('b')", nil, "k"))
    assert.same({ { "b=2" } }, push(r, "for k, v in s.m:pairs() do return k .. '=' .. v end", nil, "k"))
    push(r, "s.m:clear()", nil, "k")
    assert.same({ "nothing" }, push(r, "for k, v in s.m:pairs() do return k .. '=' .. v end", nil, "k"))
    assert.equal(0, r:entries())
  end)

  it("set to nil removes; keys are as keys of streams are", function()
    local r = interpreter(MAP)
    assert.same({ { 5, "nil", 6 } }, push(r, [[
      s.m:set(1, 5) local a = s.m:get(1.0)
      s.m:set(1.0, nil) local b = s.m:get(1)
      s.m:set({ 1, "x" }, 6)
      return a, b, s.m:get({ 1, "x" }) ]], nil, "k"))
    local message = select(2, r:push("s.m:set(nil, 1)", nil, "k"))
    assert.truthy(message:find("nil", 1, true))
    assert.truthy(select(2, r:push("return s.m:get(0/0)", nil, "k")):find("NaN", 1, true))
    assert.truthy(select(2, r:push("return s.m:get()", nil, "k")):find("nil", 1, true))
    assert.truthy(select(2, r:push("s.m:set({ a = 1 }, 1)", nil, "k")):find("map", 1, true))
  end)

  it("pairs sees the map as it was at its start", function()
    local r = interpreter(MAP)
    push(r, "for i = 1, 4 do s.m:set(i, i * 10) end", nil, "k")
    assert.same({ { 1, 10, 2, 20, 3, 30, 4, 40 } }, push(r, [[
      local out = {}
      for k, v in s.m:pairs() do
        out[#out + 1] = k; out[#out + 1] = v
        s.m:remove(k); s.m:set(k + 1, "new"); s.m:set(k + 100, "new")
      end
      return table.unpack(out) ]], nil, "k"))
    assert.same({ { "new" } }, push(r, "return s.m:get(104)", nil, "k"))
  end)

  it("pairs of Lua does the same; several at once do not disturb each other", function()
    local r = interpreter(MAP)
    push(r, "s.m:set('x', 1) s.m:set('y', 2)", nil, "k")
    assert.same({ { "xx", "xy", "yx", "yy" } }, push(r, [[
      local out = {}
      for a in pairs(s.m) do for b in s.m:pairs() do out[#out + 1] = a .. b end end
      return table.unpack(out) ]], nil, "k"))
  end)

  it("pairs ends with the call that began it", function()
    local r = interpreter(MAP)
    push(r, "for i = 1, 3 do s.m:set(i, i) end", nil, "k")
    push(r, "kept = s.m:pairs() kept()", nil, "k")
    local message = select(2, r:push("kept()", nil, "k"))
    assert.truthy(message:find("ctx.state.NAME:pairs() was used after the end of the call that began it", 1, true))
    -- One that had told its end goes on to say so.
    assert.same({ "nothing" }, push(r, "kept = s.m:pairs() while kept() do end return kept()", nil, "k"))
    -- Iterations that are abandoned in each way: by an error, by collection, by the end.
    r:push("for k in s.m:pairs() do error('x') end", nil, "k")
    push(r, "for i = 1, 9 do local f = s.m:pairs() f() f = nil collectgarbage() end", nil, "k")
    push(r, "late = s.m:pairs()", nil, "k")
    push(r, "late = nil collectgarbage()", nil, "k")
    r:push("kept = s.m:pairs()", nil, "k")
    r:close()
  end)

  it("pairs goes on over emissions that suspend", function()
    local r = process([[{ state = { m = { kind = "map" } }, on_element = function(ctx, e)
      for i = 1, 3 do ctx.state.m:set(i, e) end
      for k in ctx.state.m:pairs() do ctx:emit(k) ctx.state.m:clear() end
    end }]])
    assert.same({ 1, 2, 3 }, push(r, 0, nil, "k"))
  end)

  it("random histories agree with a plain table", function()
    local seed = os.time()
    math.randomseed(seed)
    local r = interpreter(MAP)
    local model = {}
    for _ = 1, 200 do
      local k, v = math.random(8), math.random(100)
      local op = math.random(3)
      if op == 1 then
        push(r, ("s.m:set(%d, %d)"):format(k, v), nil, "k")
        model[k] = v
      elseif op == 2 then
        push(r, ("s.m:remove(%d)"):format(k), nil, "k")
        model[k] = nil
      else
        local want = {}
        for i = 1, 8 do if model[i] then want[#want + 1] = i .. "=" .. model[i] end end
        local got = push(r, "local t = {} for k, v in s.m:pairs() do t[#t + 1] = k .. '=' .. v end " ..
                            "return table.concat(t, ' ')", nil, "k")
        assert(got[1][1] == table.concat(want, " "), "differs from the model, seed " .. seed)
      end
    end
  end)
end)

describe("binding: finalizers", function()
  it("that use ctx while a value is read do no harm", function()
    local r = interpreter("v = { kind = 'value' }, m = { kind = 'map' }")
    push(r, [[
      local big = {}
      for i = 1, 200 do big[i] = { n = i, s = "s" .. i } end
      s.v:set(big)
      for i = 1, 100 do s.m:set(i, { i }) end ]], nil, "k")
    -- Each round leaves garbage whose finalizers run inside the next reading.
    local got = push(r, [[
      collectgarbage("incremental", 100, 1000)
      local intact, ran = true, 0
      for i = 1, 20 do
        for _ = 1, 10 do
          setmetatable({}, { __gc = function()
            ran = ran + 1
            pcall(s.v.get, s.v) pcall(s.m.remove, s.m, i) pcall(s.v.set, s.v, "lost")
            pcall(function() return ctx.key end)
          end })
        end
        local t = s.v:get()
        if type(t) == "table" then
          for j = 1, 200 do intact = intact and t[j].n == j and t[j].s == "s" .. j end
        end
        local big = {}
        for j = 1, 200 do big[j] = { n = j, s = "s" .. j } end
        s.v:set(big)
      end
      return intact, ran > 0 ]], nil, "k")
    assert.same({ { true, true } }, got)
  end)
end)

describe("binding: timers", function()
  local function timed()
    return process("{ on_element = function(ctx, e) assert(load('local ctx = ... ' .. e))(ctx) end, " ..
      "on_timer = function(ctx, ts, domain) ctx:emit { ctx.key, ts, domain, ctx.timestamp } end }")
  end

  it("fire for their key, with time and domain", function()
    local r = timed()
    push(r, "ctx.timers:event_time(10)", nil, "a")
    push(r, "ctx.timers:event_time(10) ctx.timers:processing_time(5)", nil, "b")
    assert.same({}, values(assert(r:watermark(9))))
    local events = assert(r:watermark(10))
    local keys = {}
    for _, e in ipairs(events) do
      keys[#keys + 1] = e.value[1]
      assert.same({ 10, "event", 10 }, { e.value[2], e.value[3], e.value[4] })
      assert.equal(10, e.ts)
    end
    table.sort(keys)
    assert.same({ "a", "b" }, keys)
    events = assert(r:time(5))
    assert.same({ { "b", 5, "processing", 5 } }, values(events))
    assert.is_nil(events[1].ts) -- a processing time is no event time
    assert.same({ 0, 0 }, { r:timers() })
  end)

  it("070, 072. delete, also what is not there", function()
    local r = timed()
    push(r, "ctx.timers:event_time(10) ctx.timers:event_time(11) ctx.timers:delete('event', 10)", nil, "a")
    push(r, "ctx.timers:delete('event', 99) ctx.timers:delete('processing', 11)", nil, "a")
    assert.same({ { "a", 11, "event", 11 } }, values(assert(r:watermark(20))))
  end)

  it("071. duplicate registration is one timer", function()
    local r = timed()
    push(r, "for i = 1, 3 do ctx.timers:event_time(10) end", nil, "a")
    assert.same({ 1, 0 }, { r:timers() })
    assert.equal(1, #values(assert(r:watermark(10))))
  end)

  it("073. a timer in the past fires at the next advance, not inside the call", function()
    local r = timed()
    assert(r:watermark(50))
    assert.same({}, push(r, "ctx.timers:event_time(20)", nil, "a"))
    assert.equal(1, #values(assert(r:watermark(51))))
  end)

  it("074. a timer that registers another due one", function()
    local r = process([[{ on_element = function(ctx) ctx.timers:event_time(10) end,
      on_timer = function(ctx, ts)
        ctx:emit(ts)
        ctx.timers:event_time(ts == 10 and 12 or 30)
      end }]])
    push(r, 0, nil, "a")
    assert.same({ 10, 12 }, values(assert(r:watermark(20))))
    assert.same({ 1, 0 }, { r:timers() })
  end)

  it("keep their key though they register others: state goes to the right one", function()
    local r = process([[{ state = { n = { kind = "value" } },
      on_element = function(ctx, e) ctx.timers:event_time(e) end,
      on_timer = function(ctx, ts)
        for i = 1, 20 do ctx.timers:event_time(1000 + i) end
        ctx.state.n:set(ts)
        ctx:emit { ctx.key, ctx.state.n:get() }
      end }]])
    push(r, 1, nil, "a long key of the first")
    push(r, 2, nil, "b")
    local got = values(assert(r:watermark(5)))
    assert.same({ { "a long key of the first", 1 }, { "b", 2 } }, got)
  end)

  it("take whole numbers, floats floored", function()
    local r = timed()
    push(r, "ctx.timers:event_time(10.9)", nil, "a")
    assert.same({ { "a", 10, "event", 10 } }, values(assert(r:watermark(10))))
    for code, part in pairs {
      ["ctx.timers:event_time('10')"] = "must be a number of milliseconds, not a string",
      ["ctx.timers:event_time()"] = "must be a number of milliseconds",
      ["ctx.timers:event_time(0/0)"] = "fits 64 bits",
      ["ctx.timers:processing_time(1e300)"] = "fits 64 bits",
      ["ctx.timers.event_time(1)"] = "call it with a colon",
      ["ctx.timers:delete('other', 1)"] = 'the domain is "event" or "processing", not other',
      ["ctx.timers:delete(1)"] = "the domain is",
      ["ctx.timers:register(1)"] = "ctx.timers has no 'register'",
    } do
      local message = select(2, r:push(code, nil, "a"))
      assert(message:find(part, 1, true), code .. " said: " .. message)
    end
  end)

  it("need an on_timer", function()
    local r = process("{ on_element = function(ctx) ctx.timers:event_time(1) end }")
    assert.truthy(select(2, r:push(1, nil, "a")):find("the operator has no on_timer to call", 1, true))
  end)
end)

describe("binding: reduce", function()
  it("stores the first value as it is and emits each new one", function()
    local r = rig.new("{ fn = function(a, b) return { n = a.n + b.n } end }",
                      { kind = "reduce", keyed = true })
    assert.same({ { n = 1 } }, push(r, { n = 1 }, nil, "a"))
    assert.same({ { n = 3 } }, push(r, { n = 2 }, nil, "a"))
    assert.same({ { n = 5 } }, push(r, { n = 5 }, nil, "b"))
    assert.same({ { n = 6 } }, push(r, { n = 3 }, nil, "a"))
    assert.equal(2, r:entries())
  end)

  it("writes to an exchange what it stores", function()
    local r = rig.new("{ fn = function(a, b) return a + b end }",
                      { kind = "reduce", keyed = true, chained = {} })
    assert.same({ 4 }, values(assert(r:push(4, 9, "a")), "write"))
    local events = assert(r:push(5, 10, "a"))
    assert.same({ 9 }, values(events, "write"))
    assert.equal(10, events[1].ts)
  end)

  it("030. an error leaves the old value", function()
    local r = rig.new([[{ fn = function(a, b)
      if b < 0 then error("negative") end
      if b == 0 then return nil end
      return a + b
    end }]], { kind = "reduce", keyed = true })
    push(r, 5, nil, "a")
    assert.truthy(select(2, r:push(-1, nil, "a")):find("negative", 1, true))
    assert.truthy(select(2, r:push(0, nil, "a")):find("reduce returned nil", 1, true))
    assert.same({ 6 }, push(r, 1, nil, "a"))
  end)

  it("after key_by in one chain", function()
    local r = rig.new({ "{ fn = function(v) return v.k end }",
                        "{ fn = function(a, b) return { k = a.k, n = a.n + b.n } end }" },
                      { "key_by", { kind = "reduce", keyed = true } })
    local function last(v) return values(assert(r:push(v)), "emit", 2)[1].n end
    assert.equal(1, last { k = "x", n = 1 })
    assert.equal(5, last { k = "y", n = 5 })
    assert.equal(3, last { k = "x", n = 2 })
  end)
end)
