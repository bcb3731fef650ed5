local pack = require "support.pack"
local probe = require "streamckpt.probe"

local storage = probe.operator_storage()

local function new(checkpointing)
  return assert(probe.operator_new {
    kind = "collect_sink", storage = storage, options = pack.encode {}, checkpointing = checkpointing })
end

local function delivered(op)
  local out = {}
  for i, d in ipairs(op:rows()) do out[i] = { d[1], pack.decode(d[2]) } end
  return out
end

describe("collect_sink", function()
  it("delivers at a snapshot what came since the last one, for its id", function()
    local op = new(true)
    op:push(pack.encode(1))
    op:push(pack.encode { a = 2 }, nil, true)
    op:idle()
    assert.same({}, delivered(op))
    op:snapshot(5)
    op:push(pack.encode(3))
    op:finish()
    op:aborted(5)
    op:snapshot(6)
    op:snapshot(7)
    assert.same({ { 5, { 1, { a = 2 } } }, { 6, { 3 } } }, delivered(op))
  end)

  it("delivers at once without checkpoints: in batches, when idle, at a savepoint, at the end", function()
    local op = new(false)
    for i = 1, 1025 do op:push(pack.encode(i)) end
    assert.equal(1, #delivered(op))
    assert.equal(1024, #delivered(op)[1][2])
    op:idle()
    op:push(pack.encode "a")
    op:snapshot(3)
    op:push(pack.encode "b")
    op:finish()
    local all = delivered(op)
    assert.same({ { 0, { 1025 } }, { 0, { "a" } }, { 0, { "b" } } }, { all[2], all[3], all[4] })
    assert.equal(4, #all)
  end)

  it("keeps its rows whole when a value cannot be encoded", function()
    local op = new(true)
    op:push(pack.encode(1))
    local ok, _, code = op:push("", nil, true)
    assert.is_nil(ok)
    assert.equal("EVALUE", code)
    op:snapshot(1)
    assert.same({ { 1, { 1 } } }, delivered(op))
  end)
end)
