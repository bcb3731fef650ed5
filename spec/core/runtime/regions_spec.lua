-- Regions are the connected components of the graph of operators: see regions.h for why.
local probe = require "streamckpt.probe"

local function source(uid, parallelism)
  return { uid = uid, source = true, parallelism = parallelism }
end

local function op(uid, parallelism) return { uid = uid, parallelism = parallelism } end

local function regions(nodes, edges)
  return assert(probe.regions { nodes = nodes, edges = edges })
end

describe("regions", function()
  it("are one where everything is connected", function()
    local r = regions({ source "a", op "b", op "c" }, { { 1, 2 }, { 2, 3 } })
    assert.same({ 0, 0, 0 }, r.of_node)
    assert.same({ "a, b, c" }, r.names)
  end)

  it("are as many as there are pipelines", function()
    local r = regions({ source "a", op "b", source "c", op "d", source "e", op "f" },
                      { { 1, 2 }, { 3, 4 }, { 5, 6 } })
    assert.same({ 0, 0, 1, 1, 2, 2 }, r.of_node)
    assert.same({ "a, b", "c, d", "e, f" }, r.names)
  end)

  -- every way in which two operators are connected joins their regions
  for _, by in ipairs { "forward", "hash", "rebalance", "broadcast" } do
    it("are joined by " .. by, function()
      local r = regions({ source "a", op "b", source "c", op "d" },
                        { { 1, 2 }, { 3, 4 }, { 1, 4, by = by } })
      assert.same({ 0, 0, 0, 0 }, r.of_node)
    end)
  end

  it("are joined downstream by a union, upstream by two readers of one source", function()
    local r = regions({ source "a", source "b", op "union", source "c", op "left", op "right" },
                      { { 1, 3 }, { 2, 3 }, { 4, 5 }, { 4, 6 } })
    assert.same({ 0, 0, 0, 1, 1, 1 }, r.of_node)
    assert.same({ "a, b, union", "c, left, right" }, r.names)
  end)

  it("are joined by a side output, too", function()
    local r = regions({ source "a", { uid = "b", outputs = { "main", "late" } }, op "c", op "d" },
                      { { 1, 2 }, { 2, 3 }, { 2, 4, output = "late" } })
    assert.same({ 0, 0, 0, 0 }, r.of_node)
  end)

  it("are numbered by their first operators, however late they are joined", function()
    local r = regions({ op "sink", source "x", source "a", op "y", op "m" },
                      { { 5, 1 }, { 2, 4 }, { 3, 5 } })
    assert.same({ 0, 1, 0, 1, 0 }, r.of_node)
    assert.same({ "sink, a, m", "x, y" }, r.names)
  end)

  it("know their tasks, which are numbered chain by chain across regions", function()
    local r = regions({ source("a", 2), source("x", 1), op("b", 3), op("y", 1) },
                      { { 1, 3, by = "hash" }, { 2, 4 } })
    -- chains in topological order: a (tasks 0, 1), x with y (task 2), b (tasks 3, 4, 5)
    assert.same({ 0, 0, 1, 0, 0, 0 }, r.of_task)
    assert.same({ 5, 1 }, r.n_tasks)
    assert.same({ 3, 1 }, r.parallelism)
  end)

  it("do not cut a forward pipeline into its subtasks: they share stores and enumerators", function()
    local r = regions({ source("a", 4), op("b", 4) }, { { 1, 2 } })
    assert.same({ 0, 0 }, r.of_node)
    assert.same({ 0, 0, 0, 0 }, r.of_task)
  end)

  it("are named by four operators at most", function()
    local nodes, edges = { source "a" }, {}
    for i, uid in ipairs { "b", "c", "d", "e", "f" } do
      nodes[i + 1], edges[i] = op(uid), { i, i + 1 }
    end
    assert.same({ "a, b, c, d and 2 more" }, regions(nodes, edges).names)
  end)
end)
