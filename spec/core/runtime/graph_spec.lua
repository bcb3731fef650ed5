local probe = require "streamckpt.probe"

-- "a,b|c": the chains by their operators' uids.
local function chains(g)
  local t = {}
  for i, c in ipairs(g.chains) do t[i] = table.concat(c, ",") end
  return table.concat(t, "|")
end

local function source(uid, more)
  local n = { uid = uid, source = true }
  for k, v in pairs(more or {}) do n[k] = v end
  return n
end

local function build(nodes, edges) return probe.graph { nodes = nodes, edges = edges } end

local function refused(pattern, nodes, edges)
  local g, message, code = build(nodes, edges)
  assert.is_nil(g)
  assert.equal("EINVAL", code)
  assert.matches(pattern, message)
end

describe("chains", function()
  -- one sender, one receiver; what is said of them, and whether they become one task
  local cases = {
    { "forward", {}, {}, {}, true },
    { "hash", { by = "hash" }, {}, {}, false },
    { "rebalance", { by = "rebalance" }, {}, {}, false },
    { "broadcast", { by = "broadcast" }, {}, {}, false },
    { "the receiver begins a new chain", {}, {}, { new_chain = true }, false },
    { "the sender begins a new chain", {}, { new_chain = true }, {}, true },
    { "the sender is not chained", {}, { no_chain = true }, {}, false },
    { "the receiver is not chained", {}, {}, { no_chain = true }, false },
    { "equal parallelism", {}, { parallelism = 3 }, { parallelism = 3 }, true },
    { "another max_parallelism", {}, { max_parallelism = 64 }, { max_parallelism = 32 }, true },
    { "a side output", { output = "late" }, { outputs = { "main", "late" } }, {}, true },
  }
  for _, case in ipairs(cases) do
    it((case[5] and "joins: " or "cuts: ") .. case[1], function()
      local edge = { 1, 2 }
      for k, v in pairs(case[2]) do edge[k] = v end
      local b = { uid = "b" }
      for k, v in pairs(case[4]) do b[k] = v end
      local g = assert(build({ source("a", case[3]), b }, { edge }))
      assert.equal(case[5] and "a,b" or "a|b", chains(g))
    end)
  end

  it("cuts before an operator with two inputs, also of one sender", function()
    assert.equal("a|b|c", chains(assert(build({ source "a", source "b", { uid = "c" } },
                                              { { 1, 3 }, { 2, 3, port = 1 } }))))
    assert.equal("a|b", chains(assert(build({ source "a", { uid = "b" } }, { { 1, 2 }, { 1, 2 } }))))
  end)

  it("are trees: an operator may feed several", function()
    local g = assert(build({ source "a", { uid = "b" }, { uid = "c" }, { uid = "d" } },
                           { { 1, 2 }, { 1, 3 }, { 2, 4 } }))
    assert.equal("a,b,c,d", chains(g))
    assert.equal("a -> b -> c -> d", g.chains[1].name)
  end)

  it("name their operators", function()
    local g = assert(build({ source("a", { name = "log" }), { uid = "b" } }, { { 1, 2 } }))
    assert.equal("log (a) -> b", g.chains[1].name)
  end)

  it("come in topological order, whatever the order of the nodes", function()
    local g = assert(build({ { uid = "sink" }, { uid = "map" }, source "src" },
                           { { 2, 1, by = "rebalance" }, { 3, 2, by = "rebalance" } }))
    assert.equal("src|map|sink", chains(g))
  end)

  it("246: keep the max_parallelism that each operator was given", function()
    local g = assert(build({ source "a", { uid = "b", max_parallelism = 32 } }, { { 1, 2 } }))
    assert.equal("a,b", chains(g))
    -- the default: clamp(next power of two of p + p/2, 128, 32768)
    assert.same({ a = 128, b = 32 }, g.max_parallelism)
  end)
end)

describe("tasks", function()
  it("are numbered chain by chain, subtask by subtask, and know who feeds them", function()
    local g = assert(build({ source("a", { parallelism = 2 }), { uid = "b", parallelism = 3 },
                             { uid = "c", parallelism = 3, new_chain = true }, { uid = "d" } },
                           { { 1, 2, by = "hash" }, { 2, 3 }, { 3, 4, by = "rebalance" } }))
    assert.equal("a|b|c|d", chains(g))
    local first = {}
    for i, c in ipairs(g.chains) do first[i] = c.first_task end
    assert.same({ 0, 2, 5, 8 }, first)
    assert.same({
      { chain = 1, subtask = 0 }, { chain = 1, subtask = 1 },
      { 0, 1, chain = 2, subtask = 0 }, { 0, 1, chain = 2, subtask = 1 },
      { 0, 1, chain = 2, subtask = 2 },
      { 2, chain = 3, subtask = 0 }, { 3, chain = 3, subtask = 1 }, { 4, chain = 3, subtask = 2 },
      { 5, 6, 7, chain = 4, subtask = 0 },
    }, g.tasks)
  end)

  it("count edges that are equal otherwise", function()
    local g = assert(build({ source "a", { uid = "b" } },
                           { { 1, 2 }, { 1, 2, by = "rebalance" }, { 1, 2 }, { 1, 2, port = 1 }, { 1, 2 } }))
    assert.same({ 0, 0, 1, 0, 2 }, g.ordinals)
  end)
end)

describe("an edge for which the user named no exchange", function()
  local function two(from, to)
    return { source("a", { parallelism = from }), { uid = "b", parallelism = to } }
  end

  it("is forward, and chained, between equal parallelisms, else rebalance", function()
    for _, case in ipairs { { 1, 1, "forward", "a,b" }, { 3, 3, "forward", "a,b" },
                            { 1, 2, "rebalance", "a|b" }, { 3, 2, "rebalance", "a|b" } } do
      local g = assert(build(two(case[1], case[2]), { { 1, 2, by = "unnamed" } }))
      assert.same({ case[3], case[4] }, { g.partitioners[1], chains(g) })
    end
  end)

  it("is known as the same rebalance at any parallelism, beside others of the same two", function()
    local edges = { { 1, 2, by = "rebalance" }, { 1, 2, by = "unnamed" }, { 1, 2, by = "unnamed" },
                    { 1, 2, by = "rebalance" } }
    local even, uneven = assert(build(two(2, 2), edges)), assert(build(two(2, 3), edges))
    assert.same({ "rebalance", "forward", "forward", "rebalance" }, even.partitioners)
    assert.same({ "rebalance", "rebalance", "rebalance", "rebalance" }, uneven.partitioners)
    for _, g in ipairs { even, uneven } do
      assert.same({ "rebalance", "rebalance", "rebalance", "rebalance" }, g.known_as)
      assert.same({ 0, 1, 2, 3 }, g.ordinals)
    end
    -- One that was asked to be forward is another.
    local g = assert(build(two(2, 2), { { 1, 2 }, { 1, 2, by = "unnamed" } }))
    assert.same({ "forward", "rebalance", 0, 0 }, { g.known_as[1], g.known_as[2], g.ordinals[1], g.ordinals[2] })
  end)

  it("needs an operator and an output, as any does", function()
    refused('has no output "late"', two(1, 1), { { 1, 2, output = "late", by = "unnamed" } })
    refused("does not exist", two(1, 1), { { 1, 3, by = "unnamed" } })
  end)
end)

describe("a chain that is cut for one run", function()
  it("is two, whose tasks are numbered and fed as those of any forward edge", function()
    local g = assert(probe.graph {
      nodes = { source("a", { parallelism = 2 }), { uid = "b", parallelism = 2 }, { uid = "c", parallelism = 2 },
                { uid = "d", parallelism = 2 } },
      edges = { { 1, 2, by = "unnamed" }, { 2, 3, by = "unnamed" }, { 1, 4, by = "hash" } }, unchain = { 2 },
    })
    assert.equal("a,b|d|c", chains(g))
    assert.equal("forward", g.partitioners[2])
    assert.same({ { chain = 1, subtask = 0 }, { chain = 1, subtask = 1 }, { 0, 1, chain = 2, subtask = 0 },
                  { 0, 1, chain = 2, subtask = 1 }, { 0, chain = 3, subtask = 0 },
                  { 1, chain = 3, subtask = 1 } }, g.tasks)
  end)
end)

describe("what a graph refuses", function()
  it("011, 247: parallelisms out of range, by name and with both numbers", function()
    for _, case in ipairs {
      { 0, 0, "0" }, { 32769, 0, "32769" }, { -1, 0, "4294967295" }, { 1, 32769, "32769" },
      { 3, 2, "2.*3" }, { 5, 4, "4.*5" } } do
      refused("my map.*" .. case[3], { source "a", { uid = "b", name = "my map", parallelism = case[1],
                                                     max_parallelism = case[2] } }, { { 1, 2 } })
    end
    assert(build({ source("a", { parallelism = 32768 }) }))
  end)

  it("two operators of one uid", function()
    refused('uid "x": first and second',
            { source("x", { name = "first" }), { uid = "x", name = "second" } })
  end)

  it("nothing, operators without input, sources with one", function()
    refused("no operators", {})
    refused("b.*has no input", { source "a", { uid = "b" } })
    refused("b.*is a source", { source "a", source "b" }, { { 1, 2 } })
  end)

  it("outputs and operators that do not exist", function()
    refused('has no output "late"', { source "a", { uid = "b" } }, { { 1, 2, output = "late" } })
    refused("does not exist", { source "a" }, { { 1, 2 } })
    refused("does not exist", { source "a", { uid = "b" } }, { { 3, 2 } })
  end)

  it("forward between unequal parallelisms, with both", function()
    refused("a %(parallelism 2%).*b %(parallelism 3%).*rebalance",
            { source("a", { parallelism = 2 }), { uid = "b", parallelism = 3 } }, { { 1, 2 } })
  end)

  it("keyed state without key_by", function()
    for _, by in ipairs { "forward", "rebalance", "broadcast" } do
      refused("b.*key_by", { source "a", { uid = "b", keyed = true } }, { { 1, 2, by = by } })
    end
    assert(build({ source "a", { uid = "b", keyed = true } }, { { 1, 2, by = "hash", key = { "k" } } }))
  end)

  it("cycles", function()
    refused("cycle", { source "a", { uid = "b" }, { uid = "c" } },
            { { 1, 2 }, { 2, 3 }, { 3, 2, port = 1 } })
    refused("cycle", { source "a", { uid = "b" } }, { { 1, 2 }, { 2, 2, port = 1 } })
  end)
end)
