local rig = require "support.rig"

local push, values = rig.push, rig.values

local function message_of(r, ...)
  local ok, message, code = r:push(...)
  assert.is_nil(ok)
  assert.equal("EUSER", code)
  return message
end

local function has(text, part)
  assert(text:find(part, 1, true), ("%q is not in:\n%s"):format(part, text))
end

describe("binding: errors of user functions", function()
  it("name operator, message, record and traceback", function()
    local r = rig.new([[{ fn = function(v)
      local function deeper(x) error("bad " .. x.name) end
      deeper(v)
      return 1
    end }]], "map")
    local message = message_of(r, { name = "joe", n = 7 })
    has(message, "EUSER: visits (u1) 2/4: source:2: bad joe")
    has(message, '"name"')
    has(message, '"joe"')
    has(message, "stack traceback:")
    has(message, "deeper")
  end)

  it("shorten the record", function()
    local r = rig.new("{ fn = function(v) error('x') end }", "map")
    local message = message_of(r, { text = ("y"):rep(5000) })
    assert.is_true(#message < 1000)
    has(message, "...")
  end)

  it("leave the operator usable", function()
    local r = rig.new("{ fn = function(v) if v < 0 then error('negative') end return v end }", "map")
    for i = 1, 50 do
      has(message_of(r, -i), "negative")
      assert.same({ i }, push(r, i))
    end
  end)

  it("tell error objects that are tables, have __tostring, or are something else", function()
    local r = rig.new([[{ fn = function(v)
      if v == 1 then error { code = 5, why = "so" } end
      if v == 2 then error(setmetatable({}, { __tostring = function() return "spoken" end })) end
      if v == 3 then error(setmetatable({}, { __tostring = function() error("no") end })) end
      if v == 4 then error(nil) end
      if v == 5 then error(print) end
      if v == 6 then error { print } end
      if v == 7 then error(12) end
      if v == 8 then error(setmetatable({}, { __tostring = function() return {} end })) end
    end }]], "map")
    local m = message_of(r, 1)
    has(m, "(error object is a table: ")
    has(m, '"code"')
    has(m, "stack traceback")
    has(message_of(r, 2), ": spoken\n")
    has(message_of(r, 3), "error object has no text: its __tostring failed")
    has(message_of(r, 4), "(error object is nil)")
    has(message_of(r, 5), "(error object is a function: ")
    has(message_of(r, 6), "(error object is a table without __tostring)")
    has(message_of(r, 7), ": 12\n")
    has(message_of(r, 8), "error object has no text")
  end)

  it("deep recursion is an error like any other", function()
    local r = rig.new([[{ fn = function(v)
      local function down(n) return 1 + down(n + 1) end
      if v == 1 then return down(0) end
      if v == 2 then local t = {} for i = 1, 1e3 do t = { t } end return #string.format("%s", t) end
      return v
    end }]], "map")
    has(message_of(r, 1), "stack overflow")
    assert.equal(1, #push(r, 2))
    assert.same({ 3 }, push(r, 3))
  end)

  it("C recursion through coroutines and pcall ends in an error, not a crash", function()
    local r = rig.new([[{ fn = function(v)
      local function nest() return coroutine.wrap(nest)() end
      if v == 1 then return nest() end
      local t = setmetatable({}, { __index = function(t, k) return t[k .. "x"] end })
      if v == 2 then return t.a end
      return v
    end }]], "map")
    has(message_of(r, 1), "C stack overflow")
    has(message_of(r, 2), "C stack overflow")
    assert.same({ 3 }, push(r, 3))
  end)

  it("too little memory is an error of that record", function()
    local r = rig.new("{ fn = function(v) return #string.rep('x', v) end }", "map")
    local ok, message, code = r:push(1 << 62)
    assert.is_nil(ok)
    assert.equal("EUSER", code)
    assert.truthy(message:find("not enough memory", 1, true) or message:find("too large", 1, true))
    assert.same({ 3 }, push(r, 3))
  end)

  it("a plain coroutine.yield says what is wrong, and where", function()
    local r = rig.new([[{ fn = function(v)
      if v == 1 then
        coroutine.yield("out")
      end
      return v
    end }]], "map")
    local m = message_of(r, 1)
    has(m, "map called coroutine.yield outside of a coroutine of its own")
    has(m, "source:3:")
    assert.same({ 2 }, push(r, 2))
  end)

  it("close what is to be closed", function()
    local r = rig.new([[{ fn = function(v)
      local _ <close> = setmetatable({}, { __close = function() closed = (closed or 0) + 1 end })
      if v == 1 then error("x") end
      if v == 2 then coroutine.yield() end
      return closed
    end }]], "map")
    message_of(r, 1)
    message_of(r, 2)
    assert.same({ 2 }, push(r, 3))
  end)

  it("an error in __close, or an emission there, does no harm", function()
    local r = rig.new([[{ fn = function(v, ctx)
      local _ <close> = setmetatable({}, { __close = function() ctx:emit("closing") end })
      local _ <close> = setmetatable({}, { __close = function() error("in close") end })
      if v == 1 then error("x") end
      return { v }
    end }]], "flat_map")
    message_of(r, 1)
    local ok = r:push(2)
    assert.is_nil(ok)
    message_of(r, 1)
  end)

  it("another function that resumes or closes the coroutine cannot break it", function()
    local r = rig.new({ [[{ fn = function(v, ctx)
      co = coroutine.running()
      ctx:emit { v }
      return {}
    end }]], [[{ fn = function(t)
      if t[1] == 1 then coroutine.resume(co) else coroutine.close(co) end
      return t
    end }]] }, { "flat_map", "map" })
    for i = 1, 2 do
      local ok, message, code = r:push(i)
      assert.is_true(ok ~= nil or code == "EUSER", message)
    end
    for _ = 1, 3 do r:push(1) end
  end)

  it("of an emission in the middle: what was emitted before stays", function()
    local r = rig.new("{ fn = function(v, ctx) ctx:emit(v) error('after') end }", "flat_map")
    local ok, _, _, events = r:push(1)
    assert.is_nil(ok)
    assert.same({ 1 }, values(events))
  end)
end)

describe("binding: on_error", function()
  it("skip sends record and error to the side output, counts, and goes on", function()
    local r = rig.new("{ fn = function(v) return 10 // v.n end, on_error = 'skip' }",
                      { kind = "map", outputs = { "main", "late", "errors" } })
    local events = assert(r:push({ n = 0 }, 42))
    assert.same({ "numRecordsSkipped" }, values(events, "count"))
    assert.equal("emit", events[2].how)
    assert.equal(2, events[2].output)
    assert.equal(42, events[2].ts)
    assert.same({ n = 0 }, events[2].value.record)
    has(events[2].value.error, "by zero")
    assert.same({ 5 }, push(r, { n = 2 }))
  end)

  it("skip without the side output only counts", function()
    local r = rig.new("{ fn = function() error('x') end, on_error = 'skip' }", "map")
    local events = assert(r:push(1))
    assert.equal(1, #events)
    assert.equal("count", events[1].how)
  end)

  it("skip keeps what was emitted before, in order, and holds for wrong results too", function()
    local r = rig.new([[{ fn = function(v, ctx)
      ctx:emit(1)
      ;("a"):gsub(".", function() ctx:emit(2) end)
      if v == "error" then error("x") end
      return 5
    end, on_error = "skip" }]], { kind = "flat_map", outputs = { "main", "errors" } })
    for _, v in ipairs { "error", "result" } do
      local got = values(assert(r:push(v)))
      assert.same({ 1, 2 }, { got[1], got[2] })
      assert.equal(v, got[3].record)
    end
  end)

  it("skip of a record that cannot be stored keeps its text", function()
    local r = rig.new({ "{ fn = function() return { print } end }",
                        "{ fn = function() error('x') end, on_error = 'skip' }" },
                      { { kind = "map" }, { kind = "map", outputs = { "main", "errors" } } })
    local events = assert(r:push(1))
    local got = values(events, "emit", 2)[1]
    assert.equal("string", type(got.record))
    has(got.record, "cannot be printed")
  end)

  it("a function gets message, record and ctx, and may emit", function()
    local r = rig.new([[{
      fn = function(v) error("bad " .. v, 0) end,
      on_error = function(message, record, ctx) ctx:emit(message .. "/" .. record); ctx:emit(2) end,
    }]], "map")
    assert.same({ "bad x/x", 2 }, push(r, "x"))
    assert.same({ "bad y/y", 2 }, push(r, "y"))
  end)

  it("errors of the function itself fail the task", function()
    local r = rig.new([[{
      fn = function(v) error("first") end,
      on_error = function(message) error("second") end,
    }]], "map")
    local m = message_of(r, 1)
    has(m, "on_error: ")
    has(m, "second")
    has(message_of(r, 2), "second")
  end)

  it("does not touch timers: there is no record to set aside", function()
    local r = rig.new([[{
      on_element = function(ctx, e) ctx.timers:event_time(e) end,
      on_timer = function(ctx, ts) error("in timer") end,
      on_error = "skip",
    }]], { kind = "process", keyed = true })
    assert(r:push(10, nil, "k"))
    local ok, message, code = r:watermark(10)
    assert.is_nil(ok)
    assert.equal("EUSER", code)
    has(message, "in timer")
    has(message, "event-time timer: 10, key \"k\"")
  end)
end)
