local probe = require "streamckpt.probe"

describe("partitioner", function()
  local function selections(name, channels, groups, max_parallelism, subtask)
    local p, out = probe.partitioner_new(name, channels, max_parallelism, subtask), {}
    for _, group in ipairs(groups) do out[#out + 1] = probe.partitioner_select(p, group) end
    probe.partitioner_destroy(p)
    return out
  end

  it("forward has one channel", function()
    assert.same({ 0, 0, 0 }, selections("forward", 1, { 1, 2, 3 }))
  end)

  it("rebalance goes round, beginning at the sender's subtask", function()
    assert.same({ 2, 0, 1, 2, 0 }, selections("rebalance", 3, { 9, 9, 9, 9, 9 }, 128, 5))
    assert.same({ 0, 0 }, selections("rebalance", 1, { 9, 9 }, 128, 3))
  end)

  it("broadcast means all", function()
    assert.same({ "all", "all" }, selections("broadcast", 3, { 0, 1 }))
  end)

  -- The reference's rule: the owner of group g is g * parallelism / max_parallelism, rounded down.
  it("hash goes to the owner of the key group", function()
    for _, case in ipairs { { 4, 128 }, { 3, 10 }, { 7, 128 }, { 1, 5 }, { 5, 5 } } do
      local groups, expected = {}, {}
      for g = 0, case[2] - 1 do
        groups[#groups + 1] = g
        expected[#expected + 1] = g * case[1] // case[2]
      end
      assert.same(expected, selections("hash", case[1], groups, case[2]))
    end
  end)

  it("names are the stored ones", function()
    for i, name in ipairs { "forward", "hash", "rebalance", "broadcast" } do
      assert.same({ i - 1, name }, { probe.partitioner_number(name) })
    end
    assert.equal(-1, (probe.partitioner_number "shuffle"))
    assert.equal(-1, (probe.partitioner_number ""))
  end)
end)
