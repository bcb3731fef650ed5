-- The accounting of a task's time: tables of turns, in ms.
local probe = require "streamckpt.probe"

-- Run turns { begin, end, waits as } (or with `false` in front: one in which nothing moved).
local function turns(flow, list)
  for _, t in ipairs(list) do
    local moved = t[1] ~= false
    if not moved then table.remove(t, 1) end
    flow:begin(t[1])
    if flow:finish(t[2], moved, t[3]) then flow:mark(t[4], t[5]) end
  end
end

local function sum(shares)
  return shares.busy + shares.ready + shares.idle + shares.back_pressured
end

describe("flow", function()
  it("is nothing before the first turn", function()
    local seen = probe.flow_new():read(5000)
    assert.same({ 0, 0, 0 }, { seen.window, sum(seen.total), sum(seen.sampled) })
  end)

  it("splits the time by turns and what was waited for between them", function()
    local flow = probe.flow_new()
    turns(flow, { { 100, 110, "idle" }, { 140, 145, "back_pressured" }, { 165, 166, "ready" }, { 169, 170, "idle" } })
    local seen = flow:read(200)
    -- 10 + 5 + 1 + 1 in turns, idle from 110 to 140 and from 170 on, and so forth.
    assert.same({ busy = 17, idle = 60, back_pressured = 20, ready = 3 }, seen.total)
    assert.equal("idle", seen.state)
    assert.same(seen.total, seen.sampled)
    assert.equal(100, seen.window)
  end)

  it("counts a turn in which nothing moved as the waiting around it", function()
    local flow = probe.flow_new()
    turns(flow, { { 0, 10, "idle" }, { false, 30, 35, "idle" }, { false, 50, 60, "back_pressured" }, { 90, 100, "idle" } })
    -- The look at 50 found another reason, and that counts from its end on.
    assert.same({ busy = 20, idle = 50, back_pressured = 30, ready = 0 }, flow:read(100).total)
  end)

  it("is busy for whoever looks while a turn lasts", function()
    local flow = probe.flow_new()
    turns(flow, { { 0, 10, "back_pressured" } })
    flow:begin(50)
    local seen = flow:read(90)
    assert.equal("busy", seen.state)
    assert.same({ busy = 50, idle = 0, back_pressured = 40, ready = 0 }, seen.total)
    flow:finish(100, true, "idle")
    assert.same({ busy = 60, idle = 0, back_pressured = 40, ready = 0 }, flow:read(100).total)
  end)

  it("samples the last one to two windows", function()
    local flow = probe.flow_new()
    -- A second of work, then half of the time.
    for at = 0, 990, 10 do turns(flow, { { at, at + 10, "ready" } }) end
    for at = 1000, 3490, 10 do turns(flow, { { at, at + 5, "idle" } }) end
    local seen = flow:read(3500)
    assert.is_true(seen.window >= 1000 and seen.window <= 2000, seen.window)
    assert.equal(seen.window, sum(seen.sampled))
    assert.is_true(math.abs(seen.sampled.busy / seen.window - 0.5) < 0.01)
    assert.equal(3500, sum(seen.total))
    assert.equal(1000 + 250 * 5, seen.total.busy)
  end)

  it("is all one state when that has lasted a window", function()
    local flow = probe.flow_new()
    turns(flow, { { 0, 900, "idle" } })
    local seen = flow:read(60000)
    assert.same({ busy = 0, idle = 1000, back_pressured = 0, ready = 0 }, seen.sampled)
    assert.same({ busy = 900, idle = 59100, back_pressured = 0, ready = 0 }, seen.total)
    flow:begin(60000)
    assert.same({ busy = 1000, idle = 0, back_pressured = 0, ready = 0 }, flow:read(65000).sampled)
  end)

  it("does not look back beyond a long sleep", function()
    local flow = probe.flow_new()
    turns(flow, { { 0, 900, "idle", 7, 0 } })
    turns(flow, { { 60000, 60100, "back_pressured", 8, 0 } })
    local seen = flow:read(60300, 8)
    -- From a window before the end of the turn: idle but for its 100 ms, then 200 ms of waiting for room.
    assert.same({ busy = 100, idle = 900, back_pressured = 200, ready = 0 }, seen.sampled)
    assert.equal(1200, seen.window)
    assert.same({ 0, 0 }, seen.grown)
    -- A turn that fills the window by itself.
    turns(flow, { { 60300, 70300, "idle", 9, 0 } })
    assert.same({ busy = 1000, idle = 100, back_pressured = 0, ready = 0 }, flow:read(70400).sampled)
  end)

  it("tells how counters grew, and in what time", function()
    local flow, records = probe.flow_new(), 0
    for at = 0, 4990, 10 do
      records = records + 3
      flow:begin(at)
      if flow:finish(at + 10, true, "ready") then flow:mark(records, 2 * records) end
    end
    local seen = flow:read(5000, records, 2 * records)
    assert.is_true(seen.in_ms >= 1000 and seen.in_ms <= 2000, seen.in_ms)
    assert.same({ seen.in_ms // 10 * 3, seen.in_ms // 10 * 6 }, seen.grown)
    -- Nothing grows while a task sleeps; in a turn that lasts it may.
    turns(flow, { { 5000, 5001, "idle" } })
    assert.same({ 0, 0 }, flow:read(9000, records, records).grown)
    flow:begin(9000)
    seen = flow:read(12000, records + 100, 2 * records)
    assert.is_true(seen.grown[1] >= 100 and seen.in_ms >= 3000)
  end)

  it("takes a clock that goes back for one that stands still", function()
    local flow = probe.flow_new()
    turns(flow, { { 100, 90, "idle" }, { 80, 70, "back_pressured" } })
    local seen = flow:read(60)
    assert.equal(0, sum(seen.total))
    turns(flow, { { 110, 120, "idle" } })
    assert.same({ busy = 10, idle = 0, back_pressured = 10, ready = 0 }, flow:read(115).total)
  end)
end)
