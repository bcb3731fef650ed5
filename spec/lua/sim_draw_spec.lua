-- sim_draw: seeds decide runs: equal ones equally, others otherwise, and never more than a simulation takes.
local sim_draw = require "streamckpt.sim_draw"

local SIZE = { calls = 500, turns = 900, ops = 60, records = 100, time_ns = 20000000 }
local JOB = { restart = { strategy = "none" }, retain = 3,
              network = { segment_size = 32768, exclusive_buffers = 2, floating_buffers = 8, buffer_timeout = 100 } }

local function disturbed(seed, size) return sim_draw.disturbed(seed, size or SIZE, JOB, { 2, 1, 3 }) end

describe("what a seed decides", function()
  it("is the same each time, and leaves math.random alone", function()
    math.randomseed(7)
    local expected = math.random(1 << 40)
    math.randomseed(7)
    for _, seed in ipairs { 0, 1, -5, math.maxinteger, math.mininteger } do
      assert.same(disturbed(seed), disturbed(seed))
    end
    assert.equals(expected, math.random(1 << 40))
    assert.not_same(disturbed(1), disturbed(2))
  end)

  it("is within what can be simulated, for any job", function()
    local kinds = {}
    local sizes = { SIZE, { calls = 0, turns = 0, ops = 0, records = 0, time_ns = 0 },
                    { calls = 1 << 30, turns = 1 << 32, ops = 1 << 20, records = 1 << 28, time_ns = 1 << 50 } }
    for seed = 1, 1000 do
      for _, size in ipairs(sizes) do
        local s = disturbed(seed, size)
        assert.is_true(#s.events >= 1 and #s.events <= 4)
        for _, event in ipairs(s.events) do
          kinds[event.kind] = true
          assert.is_true(math.type(event.at) == "integer" and event.at >= 1)
          assert.matches("^[%l]", sim_draw.tell(event))
        end
        assert.is_true(s.interval >= 1 and math.type(s.interval) == "integer")
        assert.is_true(s.pace_ns >= 0 and math.type(s.pace_ns) == "integer")
        assert.equals(#s.widths, #s.slots)
        assert.is_true(#s.widths > s.lives_max)
      end
    end
    for _, kind in ipairs { "call", "turn", "op", "task", "storage", "cancel" } do assert.is_true(kinds[kind], kind) end
  end)

  it("of runs without failures: the first two are alike but for what math.random gives", function()
    local first, second, third = sim_draw.clean(1, JOB), sim_draw.clean(2, JOB), sim_draw.clean(3, JOB, SIZE)
    assert.not_equals(first.random, second.random)
    first.random = second.random
    assert.same(first, second)
    assert.not_equals(first.seed, third.seed)
    for number = 1, 20 do assert.same({}, sim_draw.clean(number, JOB, SIZE).events) end
  end)
end)
