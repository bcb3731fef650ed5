local pack = require "support.pack"
local probe = require "streamckpt.probe"

local storage = probe.operator_storage()

local function new(options)
  return assert(probe.operator_new {
    kind = "watermarks", uid = "wm", storage = storage, options = pack.encode(options or {}) })
end

local function push(op, record, timestamp, opaque)
  local items, message, code = op:push(pack.encode(record), timestamp, opaque)
  return items, message, code
end

-- Watermarks that are held back.
local function tick(op)
  local out = {}
  for _, item in ipairs(op:idle()) do out[#out + 1] = item.watermark end
  return out
end

describe("watermarks", function()
  it("091. bounded out-of-orderness", function()
    local op = new { field = "ts", out_of_orderness = 10 }
    push(op, { ts = 100 })
    assert.same({ 89 }, tick(op))
    push(op, { ts = 95 })
    assert.same({}, tick(op), "still 89")
    push(op, { ts = 120 })
    assert.same({ 109 }, tick(op))
    assert.same({}, tick(op))
  end)

  it("passes each record on with the timestamp of its field", function()
    local op = new { field = "ts" }
    for _, opaque in ipairs { false, true } do
      local items = push(op, { ts = 42, x = "y" }, 7, opaque)
      assert.equal(1, #items)
      assert.equal(42, items[1].timestamp)
      assert.same({ ts = 42, x = "y" }, pack.decode(items[1].bytes))
    end
  end)

  it("rounds floats down to whole ms", function()
    local op = new { field = "ts" }
    assert.equal(1, push(op, { ts = 1.9 })[1].timestamp)
    assert.equal(-2, push(op, { ts = -1.1 })[1].timestamp)
    assert.equal(-3, push(op, { ts = -3.0 })[1].timestamp)
  end)

  it("takes the record's own timestamp without a field", function()
    local op = new { out_of_orderness = 1 }
    assert.equal(5, push(op, "any value", 5)[1].timestamp)
    assert.same({ 3 }, tick(op))
  end)

  it("emits a watermark with every 64th record that finds it grown", function()
    local op = new { field = "ts", out_of_orderness = 0 }
    for i = 1, 200 do
      local items = push(op, { ts = i })
      if i % 64 == 0 then
        assert.equal(2, #items)
        assert.equal(i - 1, items[2].watermark)
      else
        assert.equal(1, #items)
      end
    end
    assert.same({ 199 }, tick(op))
  end)

  it("waits for growth after 64 records without any", function()
    local op = new { field = "ts" }
    push(op, { ts = 100 })
    assert.same({ 99 }, tick(op))
    for _ = 1, 100 do assert.equal(1, #push(op, { ts = 50 })) end
    assert.equal(100, push(op, { ts = 101 })[2].watermark)
  end)

  it("never goes back, and is what a naive model says, for random records", function()
    local seed = os.time()
    math.randomseed(seed)
    for _ = 1, 20 do
      local delay = math.random(0, 20)
      local op = new { field = "ts", out_of_orderness = delay }
      local max, last, since = math.mininteger, math.mininteger, 0
      for _ = 1, 500 do
        local out
        if math.random(30) == 1 then
          out = tick(op)[1]
          local expected = max > math.mininteger and max - delay - 1 > last and max - delay - 1 or nil
          assert.equal(expected, out, "seed " .. seed)
        else
          local ts = math.random(-1000, 1000)
          max, since = math.max(max, ts), since + 1
          local item = push(op, { ts = ts })[2]
          out = item and item.watermark
          local expected = since >= 64 and max - delay - 1 > last and max - delay - 1 or nil
          assert.equal(expected, out, "seed " .. seed)
        end
        if out then
          assert.is_true(out > last)
          last, since = out, 0
        end
      end
    end
  end)

  it("stands still instead of wrapping around at the ends of time", function()
    local op = new { field = "ts", out_of_orderness = 10 }
    push(op, { ts = math.mininteger })
    push(op, { ts = math.mininteger + 10 })
    assert.same({}, tick(op))
    push(op, { ts = math.mininteger + 12 })
    assert.same({ math.mininteger + 1 }, tick(op))
    push(op, { ts = math.maxinteger })
    assert.same({ math.maxinteger - 11 }, tick(op))
  end)

  it("says nothing at an idle moment before the first record", function()
    assert.same({}, tick(new { field = "ts" }))
  end)

  it("emits nothing at the end of input", function()
    local op = new { field = "ts" }
    push(op, { ts = 5 })
    assert.same({}, op:finish())
  end)

  it("keeps its greatest timestamp", function()
    local op = new { field = "ts", out_of_orderness = 10 }
    assert.is_nil(op:snapshot(1):encode())
    push(op, { ts = 100 })
    push(op, { ts = 70 })
    local lists = op:snapshot(2):encode()
    assert.same({ max = { 0, { 100 } } }, pack.decode(lists))
    local again = new { field = "ts", out_of_orderness = 10 }
    assert.equal(0, again:restore(lists))
    push(again, { ts = 80 })
    assert.same({ 89 }, tick(again))
  end)

  it("takes the least of several states", function()
    local op = new { field = "ts" }
    assert.equal(0, op:restore(pack.encode { max = { 0, { 300, 100, 200 } } }))
    assert.same({ 99 }, tick(op))
    op = new { field = "ts" }
    assert.equal(0, op:restore(pack.encode { max = { 0, pack.array {} } }))
    assert.same({}, tick(op))
  end)

  it("refuses a damaged state", function()
    local ok, _, code = new():restore(pack.encode { max = { 0, { "x" } } })
    assert.is_nil(ok)
    assert.equal("ECORRUPT", code)
  end)

  it("names operator, field and record where there is no usable timestamp", function()
    local op = new { field = "when" }
    for _, opaque in ipairs { false, true } do
      local ok, message, code = push(op, { name = "x" }, nil, opaque)
      assert.is_nil(ok)
      assert.equal("EVALUE", code)
      assert.matches('watermarks (wm) 1/1: a record has no field when: {"name":"x"}',
        message:gsub(": ?\"x\"", ":\"x\""), 1, true)
      for _, bad in ipairs { "12", 0.0 / 0.0, math.huge, 1e300, true, pack.null } do
        ok, message, code = push(op, { when = bad }, nil, opaque)
        assert.is_nil(ok)
        assert.equal("EVALUE", code)
        assert.matches("a record has no number of milliseconds in field when", message, 1, true)
      end
    end
    local ok, message = push(op, "no map")
    assert.is_nil(ok)
    assert.matches('no field when: "no map"', message, 1, true)
    ok, message = push(new {}, { a = 1 })
    assert.is_nil(ok)
    assert.matches("has no timestamp", message, 1, true)
  end)

  it("shortens a long record in its message", function()
    local _, message = push(new { field = "t" }, { text = ("x"):rep(10000) })
    assert.is_true(#message < 400)
    assert.matches("...", message, 1, true)
  end)

  it("goes on after a refused record", function()
    local op = new { field = "ts" }
    push(op, { ts = 1 })
    push(op, {})
    assert.equal(2, push(op, { ts = 2 })[1].timestamp)
    assert.same({ 1 }, tick(op))
  end)

  it("refuses bad options by name", function()
    local function fails(options, text)
      local op, message, code = probe.operator_new {
        kind = "watermarks", storage = storage, options = pack.encode(options) }
      assert.is_nil(op)
      assert.equal("EINVAL", code)
      assert.matches(text, message, 1, true)
    end
    fails({ field = 3 }, "option field must be a string")
    fails({ field = "" }, "option field must be a string that is not empty")
    fails({ out_of_orderness = "1s" }, 'option out_of_orderness must be a whole number, but it is "1s"')
    fails({ out_of_orderness = 1.5 }, "must be a whole number")
    fails({ out_of_orderness = -1 }, "must not be negative")
    assert.is_truthy(new { out_of_orderness = 5.0 })
  end)
end)
