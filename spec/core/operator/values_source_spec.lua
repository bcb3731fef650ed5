local pack = require "support.pack"
local probe = require "streamckpt.probe"

local storage = probe.operator_storage()

local function new(values, extra)
  local o = { kind = "values_source", storage = storage, options = pack.encode { values = values } }
  for k, v in pairs(extra or {}) do o[k] = v end
  return assert(probe.operator_new(o))
end

local function drain(op)
  local rows = {}
  while true do
    local what, item = op:poll()
    assert.is_truthy(what, item)
    if what ~= "emit" then return rows, what end
    rows[#rows + 1] = pack.decode(item.bytes)
  end
end

describe("values_source", function()
  it("has one split, whatever the values", function()
    local splits = probe.operator_splits("values_source", pack.encode { values = { 1, 2 } })
    assert.same({ { from = 0 } }, pack.decode(splits))
  end)

  it("emits the values in order, then asks, then ends", function()
    local values = { 1, "two", { a = 3.5 }, { 4, { 5 } }, false }
    local op = new(values)
    assert.equal("idle", op:poll())
    assert.equal(1, op:asks())
    assert.equal(math.maxinteger, op:wake_at())
    op:add_split(pack.encode { from = 0 })
    local rows, why = drain(op)
    assert.same(values, rows)
    assert.equal("idle", why)
    op:no_more()
    assert.equal("ended", op:poll())
    assert.equal("ended", op:poll())
  end)

  it("goes on from where its state says, at every position", function()
    local values = { 10, 20, 30, 40 }
    for taken = 0, #values do
      local op = new(values)
      op:add_split(pack.encode { from = 0 })
      for _ = 1, taken do assert.equal("emit", (op:poll())) end
      local lists = op:snapshot(1):encode()
      assert.same({ splits = { 0, { { at = taken } } } }, pack.decode(lists))
      local again = new(values)
      assert.equal(0, again:restore(lists))
      assert.same({ table.unpack(values, taken + 1) }, (drain(again)))
    end
  end)

  it("has no state without the split", function()
    local op = new { 1 }
    assert.is_nil(op:snapshot(1):encode())
    op:add_split(pack.encode { from = 0 })
    drain(op)
    assert.is_nil(op:snapshot(2):encode())
  end)

  it("301. empty input", function()
    local op = new(pack.array {})
    op:add_split(pack.encode { from = 0 })
    op:no_more()
    assert.equal("ended", op:poll())
    local made_by_a_script = new {}
    made_by_a_script:no_more()
    assert.equal("ended", made_by_a_script:poll())
  end)

  it("refuses a state behind the end of the values", function()
    local op = new { 1, 2 }
    local ok, message, code = op:restore(pack.encode { splits = { 0, { { at = 3 } } } })
    assert.is_nil(ok)
    assert.equal("ESTATE", code)
    assert.matches("stands at value 3", message)
    assert.matches("gives 2 values", message)
  end)

  it("refuses damaged states", function()
    local ok, _, code = new({ 1 }):restore("\x81")
    assert.is_nil(ok)
    assert.equal("ECORRUPT", code)
    ok, _, code = new({ 1 }):restore(pack.encode { splits = { 0, { {} } } })
    assert.is_nil(ok)
    assert.equal("ESTATE", code)
  end)

  it("refuses bad options by name", function()
    local function fails(options, text)
      local op, message, code = probe.operator_new {
        kind = "values_source", storage = storage, options = pack.encode(options) }
      assert.is_nil(op)
      assert.equal("EINVAL", code)
      assert.matches(text, message, 1, true)
      assert.is_nil((probe.operator_splits("values_source", pack.encode(options))))
    end
    fails({}, "option values is missing")
    fails({ values = 7 }, "option values must be an array, but it is 7")
    fails({ values = { a = 1 } }, "option values must be an array")
  end)
end)
