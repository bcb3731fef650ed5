-- The size of a gate's buffers, as tables of measurements. With one sample there is no mean (2 / (1 + 1) is 1),
-- so that a size is what the formula wants.
local probe = require "streamckpt.probe"

-- A debloater whose task has read `rate` bytes in a second that was not idle.
local function measured(options, rate)
  local d = probe.debloater_new(options)
  d:measure(0, 0, 0)
  d:measure(1000, rate, 1000)
  return d
end

-- What it announces when it looks so often at a gate with so many units.
local function announced(d, units, times)
  local list = {}
  for i = 1, times do list[i] = d:gate(units) end
  return list
end

describe("debloater", function()
  it("begins with a kibibyte, or a segment where that is less", function()
    assert.equal(1024, probe.debloat_start_size(32768))
    assert.equal(300, probe.debloat_start_size(300))
  end)

  it("is due once a period, from the last measurement on", function()
    local d = probe.debloater_new { period = 200 }
    assert.is_true(d:due(5000))
    d:measure(5000, 0, 0)
    assert.is_false(d:due(5199))
    assert.is_true(d:due(5200))
    d:measure(5350, 0, 0)
    assert.same({ false, true }, { d:due(5549), d:due(5550) })
  end)

  it("divides what the task does in `target` by what is queued, and at most doubles", function()
    -- 100,000 bytes in a second, 10 units: 10,000 each.
    assert.same({ 2048, 4096, 8192, 10000, 0 }, announced(measured({ samples = 1, threshold = 0 }, 100000), 10, 5))
    -- Half a second of it: 5,000 each.
    local half = measured({ samples = 1, threshold = 0, target = 500 }, 100000)
    assert.same({ 2048, 4096, 5000, 0 }, announced(half, 10, 4))
    -- An empty queue counts as one unit.
    assert.same({ 2048, 2500, 0 }, announced(measured({ samples = 1, threshold = 0 }, 2500), 0, 3))
  end)

  it("stays between 256 bytes and a segment", function()
    assert.same({ 256, 0 }, announced(measured({ samples = 1 }, 100), 10, 2))
    assert.same({ 2048, 4096, 5000, 0 }, announced(measured({ samples = 1, segment = 5000 }, 10 ^ 9 | 0), 10, 4))
    -- A segment that is smaller than every bound is all there is.
    assert.same({ 0, 0 }, announced(measured({ samples = 1, segment = 100 }, 100), 10, 2))
  end)

  it("moves by 2 / (samples + 1) of the difference", function()
    local d = measured({ samples = 20, threshold = 0 }, 10 ^ 9 | 0)
    -- Towards twice what it is: each is 23/21 of the one before.
    assert.same({ 1122, 1228, 1345, 1473, 1614, 1767 }, announced(d, 1, 6))
    for _ = 1, 40 do d:gate(1) end
    assert.equal(0, d:gate(1)) -- 32,768 has been reached
    d:measure(2000, 10 ^ 9 | 0, 2000) -- a second in which it read nothing
    -- Towards nothing: each is 19/21 of the one before.
    assert.same({ 29647, 26824, 24269, 21958, 19867, 17974 }, announced(d, 1, 6))
  end)

  it("announces a change of a quarter, and those to a bound", function()
    -- 1024 + 256 = 1280 is passed by 1345, and 1345 + 336 = 1681 by 1767.
    local d = measured({ samples = 20 }, 10 ^ 9 | 0)
    assert.same({ 0, 0, 1345, 0, 0, 1767 }, announced(d, 1, 6))
    -- A fall below 1024 - 256 = 768 is announced, one to that as well, one to 769 not.
    assert.same({ 0 }, announced(measured({ samples = 1 }, 769), 1, 1))
    assert.same({ 768 }, announced(measured({ samples = 1 }, 768), 1, 1))
    -- The bound is near.
    assert.same({ 1030 }, announced(measured({ samples = 1, segment = 1030 }, 10 ^ 6), 1, 1))
    assert.same({ 0 }, announced(measured({ samples = 1, segment = 1100 }, 1030), 1, 1))
  end)

  it("compares with what was announced, not with the last size", function()
    local d = measured({ samples = 1 }, 1270)
    assert.equal(0, d:gate(1))
    d:measure(2000, 1270 + 1279, 2000)
    assert.equal(0, d:gate(1)) -- 9 more than before, 255 more than they have heard
    d:measure(3000, 1270 + 1279 + 1280, 3000)
    assert.equal(1280, d:gate(1))
  end)

  it("measures what was read in time that was not idle", function()
    local d = probe.debloater_new { samples = 1, threshold = 0 }
    d:measure(0, 500, 70)
    assert.equal(0, d:gate(1)) -- only where it begins
    d:measure(1000, 500 + 300, 70 + 200)
    assert.equal(1500, d:gate(1)) -- 300 bytes in 200 ms
  end)

  it("holds the last throughput where all the time was idle, and moves nothing before there is one", function()
    local d = probe.debloater_new { samples = 1, threshold = 0 }
    d:measure(0, 0, 0)
    d:measure(1000, 0, 0)
    assert.equal(0, d:gate(1))
    d:measure(2000, 1500, 1000)
    assert.equal(1500, d:gate(1))
    d:measure(3000, 1500, 1000)
    assert.equal(750, d:gate(2)) -- still 1500 bytes a second, over two units
  end)

  it("leaves out what is skipped", function()
    local d = probe.debloater_new { samples = 1, threshold = 0 }
    d:skip(0, 0, 0)
    d:skip(1000, 0, 1000) -- busy for a second, but not with what is counted
    assert.is_false(d:due(1199))
    d:measure(1200, 1500, 2000)
    assert.equal(1500, d:gate(1))
  end)

  it("gives each gate a size of its own, from the throughput of the task", function()
    local d = measured({ samples = 1, threshold = 0, gates = 2 }, 10000)
    assert.same({ 1000, 2000 }, { d:gate(10, 1), d:gate(5, 2) })
  end)
end)
