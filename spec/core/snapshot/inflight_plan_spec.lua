local probe = require "streamckpt.probe"

local M = 32768 -- the reference computes its tables of scenario 229 with it

local function edge(t)
  t = t or {}
  return { from = t.from or "a", output = t.output or "main", to = t.to or "b",
           partitioner = t.partitioner or "hash", port = t.port or 0, ordinal = t.ordinal or 0,
           chained = t.chained, parallelism = t.parallelism, max_parallelism = t.max_parallelism or M }
end

local function range(i, p, m) return (i * m + p - 1) // p, ((i + 1) * m - 1) // p end

-- In-flight data of one side of (sender, receiver) of the edge, tagged where it is by key.
local function flight(t)
  t.kind, t.sender, t.receiver = 3, t.sender or 0, t.receiver or 0
  t.edge, t.side, t.generation = t.edge or 0, t.side or 0, t.generation or 1
  if t.bytes ~= 0 then
    t.file, t.length, t.checksum = t.file or "f", 1000, 0
    t.offset, t.bytes = t.offset or 50, t.bytes or 20
  end
  return t
end

-- The metadata of operators "a" (senders) and "b" (receivers) with this in flight.
local function snapshot(edges, handles, max_parallelism)
  for _, e in ipairs(edges) do e.from_parallelism, e.to_parallelism = 1, 1 end
  return {
    id = 42, job_id = "j", operators = {
      { uid = "b", name = "b", parallelism = 1, max_parallelism = max_parallelism or M,
        subtasks = { { handles = handles } } },
    }, edges = edges,
  }
end

-- For each new receiver the old ones that it gets a channel of, as "{0,1}{1}".
local function owners(plan, parallelism)
  local out = {}
  for r = 0, parallelism - 1 do
    local of = {}
    for i, c in ipairs(probe.inflight_plan_of(plan, 0, r)) do of[i] = c.origin end
    out[#out + 1] = "{" .. table.concat(of, ",") .. "}"
  end
  return table.concat(out)
end

local function plan_of_all(partitioner, old, new)
  local handles = {}
  for r = 0, old - 1 do
    local h = flight { receiver = r }
    if partitioner == "hash" then h.first, h.last = range(r, old, M) end
    handles[#handles + 1] = h
  end
  local e = edge { partitioner = partitioner, parallelism = new }
  return assert(probe.inflight_plan(snapshot({ edge { partitioner = partitioner } }, handles), { e }))
end

describe("inflight_plan", function()
  it("229. an edge by key: each owner of some of a receiver's key groups", function()
    for _, t in ipairs {
      { 3, 2, "{0,1}{1,2}" }, { 3, 4, "{0}{0,1}{1,2}{2}" }, { 3, 7, "{0}{0}{0,1}{1}{1,2}{2}{2}" },
      { 10, 2, "{0,1,2,3,4}{5,6,7,8,9}" }, { 2, 3, "{0}{0,1}{1}" }, { 4, 3, "{0,1}{1,2}{2,3}" },
      { 2, 5, "{0}{0}{0,1}{1}{1}" }, { 5, 2, "{0,1,2}{2,3,4}" },
      { 4, 6, "{0}{0,1}{1}{2}{2,3}{3}" },
    } do
      assert.equal(t[3], owners(plan_of_all("hash", t[1], t[2]), t[2]), t[1] .. "->" .. t[2])
    end
  end)

  it("230. an edge without keys: whole, round robin", function()
    for _, t in ipairs {
      { 10, 4, "{0,4,8}{1,5,9}{2,6}{3,7}" }, { 5, 2, "{0,2,4}{1,3}" },
      { 4, 10, "{0}{1}{2}{3}{}{}{}{}{}{}" },
    } do
      assert.equal(t[3], owners(plan_of_all("rebalance", t[1], t[2]), t[2]), t[1] .. "->" .. t[2])
    end
  end)

  it("232, 233. what two new receivers share of an old one is cut at their border", function()
    local plan = plan_of_all("hash", 3, 2)
    for r = 0, 1 do
      local first, last = range(r, 2, M)
      for _, c in ipairs(probe.inflight_plan_of(plan, 0, r)) do
        local a, b = range(c.origin, 3, M)
        assert.same({ math.max(first, a), math.min(last, b) }, { c.first, c.last })
      end
    end
  end)

  it("235, 236. without a change each gets its own, whole", function()
    for _, kind in ipairs { "hash", "rebalance" } do
      for _, p in ipairs { 1, 2, 7, 100 } do
        local plan = plan_of_all(kind, p, p)
        for r = 0, p - 1 do
          local list = probe.inflight_plan_of(plan, 0, r)
          assert.equal(1, #list)
          assert.equal(r, list[1].origin)
          if kind == "hash" then
            assert.same({ range(r, p, M) }, { list[1].first, list[1].last })
          end
        end
      end
    end
  end)

  it("the receiver's part comes before the sender's, with the watermark in front of both", function()
    local e = edge { parallelism = 1, partitioner = "rebalance" }
    local plan = probe.inflight_plan(snapshot({ edge { partitioner = "rebalance" } }, {
      flight { side = 1, offset = 60, sender = 1 },
      flight { side = 0, offset = 90, sender = 1, watermark = 7, idle = true },
      flight { side = 1, sender = 0, offset = 10 },       -- the receiver had read all of it
      flight { side = 0, sender = 0, bytes = 0, watermark = 5 },
      flight { side = 0, sender = 2, bytes = 0, watermark = 9 }, -- and nothing came after
    }), { e })
    local list = probe.inflight_plan_of(plan, 0, 0)
    assert.equal(2, #list)
    assert.same({ 0, 5, false, 1, 10 }, { list[1].sender, list[1].watermark, list[1].idle, #list[1],
                                          list[1][1].offset })
    assert.same({ 1, 7, true, 2, 90, 60 }, { list[2].sender, list[2].watermark, list[2].idle,
                                             #list[2], list[2][1].offset, list[2][2].offset })
  end)

  it("older generations come first, and the next one is above all", function()
    local handles = {}
    for i, g in ipairs { 3, 1, 7, 2 } do
      handles[i] = flight { generation = g, receiver = 0, origin = i, first = 0, last = M - 1 }
    end
    local plan = probe.inflight_plan(snapshot({ edge() }, handles), { edge { parallelism = 1 } })
    local got = {}
    for i, c in ipairs(probe.inflight_plan_of(plan, 0, 0)) do got[i] = c.generation end
    assert.same({ 1, 2, 3, 7 }, got)
    assert.equal(8, probe.inflight_plan_generation(plan))
  end)

  it("what was kept again goes only to owners of its tag, and by its last holder", function()
    local keyed = flight { sender = 5, receiver = 1, origin = 0, generation = 2, first = 100,
                           last = 200, watermark = 3 }
    local plan = probe.inflight_plan(snapshot({ edge() }, { keyed }), { edge { parallelism = 2 } })
    assert.same({}, probe.inflight_plan_of(plan, 0, 1))
    local c = probe.inflight_plan_of(plan, 0, 0)[1]
    assert.same({ 5, 0, 2, 100, 200, 3 }, { c.sender, c.origin, c.generation, c.first, c.last,
                                            c.watermark })
    local whole = flight { sender = 5, receiver = 3, origin = 0, generation = 2 }
    local e = edge { partitioner = "rebalance" }
    plan = probe.inflight_plan(snapshot({ e }, { whole }),
                               { edge { partitioner = "rebalance", parallelism = 2 } })
    assert.equal(0, #probe.inflight_plan_of(plan, 0, 0))
    assert.equal(1, #probe.inflight_plan_of(plan, 0, 1))
  end)

  it("parts of one old channel that one holder got by several ways stay apart", function()
    local function part(first, last, side)
      return flight { receiver = 0, origin = 1, first = first, last = last, side = side }
    end
    local plan = probe.inflight_plan(snapshot({ edge() }, {
      part(0, 99, 0), part(100, 199, 1), part(0, 99, 1), part(100, 199, 0),
    }), { edge { parallelism = 1 } })
    local list = probe.inflight_plan_of(plan, 0, 0)
    assert.equal(2, #list)
    for _, c in ipairs(list) do assert.equal(2, #c) end
  end)

  it("234, 238. knows edges by what they are, each with its own rule; reordered ones too", function()
    local function two(a, b) return { edge(a), edge(b) } end
    local keyed = { from = "a", port = 0 }
    local round = { from = "c", port = 1, partitioner = "rebalance" }
    local side = { from = "a", port = 0, output = "late" }
    local handles = {
      flight { edge = 0, receiver = 2, first = 30000, last = M - 1 },
      flight { edge = 1, receiver = 2 },
    }
    local old = snapshot(two(keyed, round), handles)
    local function new(t) local e = edge(t); e.parallelism = 2; return e end
    -- the order of a union turned round, a chained edge and another one in between
    local plan = assert(probe.inflight_plan(old, { new(round), edge { to = "x", partitioner = "forward", chained = true },
                                                 new(side), new(keyed) }))
    assert.same({ 0, 1 }, { #probe.inflight_plan_of(plan, 3, 0), #probe.inflight_plan_of(plan, 3, 1) })
    assert.same({ 1, 0 }, { #probe.inflight_plan_of(plan, 0, 0), #probe.inflight_plan_of(plan, 0, 1) })
    assert.equal(3, probe.inflight_plan_of(plan, 3, 1)[1].edge)
    for r = 0, 1 do assert.same({}, probe.inflight_plan_of(plan, 2, r)) end
  end)

  it("tells on which edges something is in flight, also inside a chain; watermarks are nothing", function()
    local round = { partitioner = "rebalance" }
    local m = snapshot({ edge(), edge(round), edge { from = "gone" }, edge { to = "quiet" } }, {
      flight { edge = 1 }, flight { edge = 2, first = 0, last = M - 1 },
      flight { edge = 3, bytes = 0, watermark = 4, first = 0, last = M - 1 },
    })
    round.chained, round.parallelism = true, 1
    assert.same({ false, false, true, false }, probe.inflight_edges(m, {
      edge { partitioner = "rebalance", ordinal = 1 }, edge { parallelism = 1 }, edge(round),
      edge { to = "quiet", parallelism = 1 } }))
  end)

  it("nothing in flight is no plan, also where only watermarks were kept", function()
    for _, handles in ipairs { {}, { flight { bytes = 0, watermark = 4, first = 0, last = 9 } } } do
      local plan = assert(probe.inflight_plan(snapshot({ edge() }, handles), {}))
      assert.equal(1, probe.inflight_plan_generation(plan))
    end
  end)

  describe("refuses", function()
    local function refused(m, edges, code, ...)
      local plan, message, got = probe.inflight_plan(m, edges)
      assert.is_nil(plan)
      assert.equal(code, got)
      for _, word in ipairs { ... } do assert.matches(word, message, 1, true) end
    end
    local keyed = flight { first = 0, last = M - 1 }

    it("data of an edge that the job does not have, naming it and the way across", function()
      local m = snapshot({ edge { output = "late", port = 1 } }, { keyed })
      for _, other in ipairs {
        { output = "late", port = 1, from = "x" }, { output = "late", port = 1, to = "x" },
        { output = "main", port = 1 }, { output = "late", port = 0 },
        { output = "late", port = 1, ordinal = 1 },
        { output = "late", port = 1, partitioner = "forward" },
      } do
        other.parallelism = 1
        refused(m, { edge(other) }, "ESTATE", "checkpoint 42", '"a" (output "late") to "b"', "hash",
                "input 1", "savepoint")
      end
      refused(m, {}, "ESTATE", "savepoint")
      assert(probe.inflight_plan(m, { edge { output = "late", port = 1, parallelism = 1 } }))
    end)

    it("data of an edge inside a chain, which a new start would not have", function()
      local m = snapshot({ edge { partitioner = "rebalance" } }, { flight {} })
      local inside = edge { partitioner = "rebalance", parallelism = 1, chained = true }
      refused(m, { inside }, "ESTATE", "checkpoint 42", '"a" to "b"', "chained", "start it from")
      inside.chained = false
      assert(probe.inflight_plan(m, { inside }))
    end)

    it("data by key where max_parallelism has changed, with both numbers", function()
      refused(snapshot({ edge() }, { keyed }), { edge { parallelism = 1, max_parallelism = 128 } },
              "ESTATE", '"b"', "32768", "128")
    end)

    it("239. data of edges that are never captured", function()
      for _, kind in ipairs { "forward", "broadcast", "custom" } do
        local e = edge { partitioner = kind, parallelism = 1 }
        refused(snapshot({ edge { partitioner = kind } }, { flight {} }), { e }, "ECORRUPT", kind)
      end
      refused(snapshot({ edge() }, { flight {} }), { edge { parallelism = 1 } }, "ECORRUPT", "hash")
    end)

    it("the same side of a channel twice", function()
      local other = flight { first = 0, last = M - 1, offset = 500 }
      refused(snapshot({ edge() }, { keyed, other }), { edge { parallelism = 1 } }, "ECORRUPT",
              "twice")
    end)
  end)

  it("every key group of every old channel has exactly one new reader, over three restores", function()
    local m = 64
    math.randomseed(7)
    for _ = 1, 200 do
      local p = { math.random(1, 6), math.random(1, 6), math.random(1, 6), math.random(1, 6) }
      local handles = {}
      for r = 0, p[1] - 1 do
        local first, last = range(r, p[1], m)
        handles[#handles + 1] = flight { receiver = r, first = first, last = last, max = m }
      end
      for step = 2, 4 do
        local e = edge { parallelism = p[step], max_parallelism = m }
        local plan = probe.inflight_plan(snapshot({ edge { max_parallelism = m } }, handles, m), { e })
        local readers, rest = {}, {}
        for r = 0, p[step] - 1 do
          for _, c in ipairs(probe.inflight_plan_of(plan, 0, r)) do
            for g = c.first, c.last do readers[g] = (readers[g] or 0) + 1 end
            rest[#rest + 1] = flight { receiver = r, origin = c.origin, first = c.first, last = c.last }
          end
        end
        for g = 0, m - 1 do assert.equal(1, readers[g]) end
        handles = rest -- nothing was read of it
      end
    end
  end)
end)
