local probe = require "streamckpt.probe"

describe("restart", function()
  it("272. fixed delay", function()
    local r = probe.restart_new("fixed_delay", { attempts = 3, delay = 10000 })
    for _ = 1, 3 do assert.equal(10000, probe.restart_failed(r, 0)) end
    assert.is_false(probe.restart_failed(r, 0))
    assert.equal(3, probe.restart_count(r))
  end)

  it("279. attempts", function()
    local r = probe.restart_new("fixed_delay", { attempts = 13 })
    for _ = 1, 13 do assert.equal(1000, probe.restart_failed(r, 0)) end
    assert.is_false(probe.restart_failed(r, 0))
  end)

  it("restarts for ever after a second by default", function()
    local r = probe.restart_new("fixed_delay", {})
    for i = 1, 1000 do assert.equal(1000, probe.restart_failed(r, i)) end
  end)

  it("never restarts with none, nor with no attempts", function()
    assert.is_false(probe.restart_failed(probe.restart_new("none", {}), 0))
    assert.is_false(probe.restart_failed(probe.restart_new("fixed_delay", { attempts = 0 }), 0))
  end)

  it("may restart at once", function()
    assert.equal(0, probe.restart_failed(probe.restart_new("fixed_delay", { delay = 0 }), 0))
  end)

  it("refuses an unknown strategy and a negative delay", function()
    local r, message, code = probe.restart_new("sometimes", {})
    assert.is_nil(r)
    assert.equal("EUNSUPPORTED", code)
    assert.matches('"sometimes"', message, 1, true)
    r, message, code = probe.restart_new("fixed_delay", { delay = -5 })
    assert.is_nil(r)
    assert.equal("EINVAL", code)
    assert.matches("-5 ms", message, 1, true)
  end)

  -- `times` of failures, each after the delay granted before; the job runs at once when restarted.
  local function delays(r, count, uniform)
    local out, now = {}, 0
    for i = 1, count do
      local delay = probe.restart_failed(r, now, uniform)
      out[i] = delay
      if not delay then break end
      now = now + delay + 1
      probe.restart_running(r, now)
      now = now + 1
    end
    return out
  end

  it("273. failure rate", function()
    local r = probe.restart_new("failure_rate", { max_failures = 3, interval = 10000, delay = 5 })
    for _ = 1, 3 do assert.equal(5, probe.restart_failed(r, 100)) end
    assert.is_false(probe.restart_failed(r, 100))
    r = probe.restart_new("failure_rate", { max_failures = 1, interval = 1, delay = 0 })
    for i = 0, 99 do assert.equal(0, probe.restart_failed(r, 2 * i)) end
    -- The oldest of max_failures + 1 must lie more than an interval back, not just as much.
    r = probe.restart_new("failure_rate", { max_failures = 2, interval = 10, delay = 0 })
    assert.equal(0, probe.restart_failed(r, 0))
    assert.equal(0, probe.restart_failed(r, 5))
    assert.is_false(probe.restart_failed(r, 10))
    r = probe.restart_new("failure_rate", { max_failures = 2, interval = 10, delay = 0 })
    for _, now in ipairs { 0, 5, 11, 16, 22 } do assert.equal(0, probe.restart_failed(r, now)) end
  end)

  it("274. exponential sequence", function()
    local r = probe.restart_new("exponential_delay",
      { initial_backoff = 4, multiplier = 2.3, max_backoff = 300, jitter = 0 })
    assert.same({ 4, 9, 21, 48, 111, 257, 300, 300 }, delays(r, 8))
  end)

  it("275. exponential 1000 x2 max 60000 / x1.5", function()
    local r = probe.restart_new("exponential_delay", { multiplier = 2, jitter = 0 })
    assert.same({ 1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000 }, delays(r, 8))
    r = probe.restart_new("exponential_delay", { multiplier = 1.5, jitter = 0 })
    assert.same({ 1000, 1500, 2250, 3375, 5062, 7593, 11390, 17085, 25628, 38443, 57665, 60000 },
      delays(r, 12))
  end)

  it("276. reset", function()
    local r = probe.restart_new("exponential_delay",
      { initial_backoff = 1, multiplier = 2, max_backoff = 100, jitter = 0, reset_threshold = 8 })
    assert.equal(1, probe.restart_failed(r, 0))
    probe.restart_running(r, 1)
    assert.equal(2, probe.restart_failed(r, 8))
    probe.restart_running(r, 10)
    assert.equal(1, probe.restart_failed(r, 18))
  end)

  it("277. jitter range", function()
    local seen = { {}, {}, {}, {} }
    for i = 0, 999 do
      local r = probe.restart_new("exponential_delay",
        { initial_backoff = 2, multiplier = 2, max_backoff = 7, jitter = 0.25 })
      for n, delay in ipairs(delays(r, 4, i / 1000)) do seen[n][delay] = true end
    end
    assert.same({ { [2] = true }, { [3] = true, [4] = true, [5] = true }, { [6] = true, [7] = true },
                  { [7] = true } }, seen)
  end)

  it("278. jitter 1", function()
    local seen = { {}, {}, {} }
    for i = 0, 999 do
      local r = probe.restart_new("exponential_delay",
        { initial_backoff = 1, multiplier = 2, max_backoff = 7, jitter = 1 })
      for n, delay in ipairs(delays(r, 3, i / 1000)) do seen[n][delay] = true end
    end
    assert.same({ { true, true }, { true, true, true, true },
                  { true, true, true, true, true, true, true } }, seen)
  end)

  it("279. attempts of exponential_delay", function()
    local r = probe.restart_new("exponential_delay", { attempts = 13, jitter = 0 })
    local granted = delays(r, 14)
    assert.equal(14, #granted)
    assert.is_false(granted[14])
  end)

  it("281. reset only on stable run", function()
    local r = probe.restart_new("exponential_delay",
      { initial_backoff = 1, multiplier = 2, max_backoff = 1000, jitter = 0, reset_threshold = 8 })
    local now, expected = 0, 1
    for _ = 1, 8 do -- each restore takes longer than the threshold and fails before the job runs
      assert.equal(expected, probe.restart_failed(r, now))
      now, expected = now + expected + 20, expected * 2
    end
  end)

  it("takes failures while a restart is due for one", function()
    local r = probe.restart_new("exponential_delay", { jitter = 0 })
    assert.equal(1000, probe.restart_failed(r, 0))
    assert.equal(400, probe.restart_failed(r, 600))
    probe.restart_running(r, 1100)
    assert.equal(1500, probe.restart_failed(r, 1200))
  end)

  it("refuses numbers that make no sense", function()
    for _, bad in ipairs { { "failure_rate", { max_failures = 0 } }, { "exponential_delay", { multiplier = 1 } },
                           { "exponential_delay", { jitter = 1.5 } },
                           { "exponential_delay", { initial_backoff = 10, max_backoff = 5 } } } do
      local r, _, code = probe.restart_new(bad[1], bad[2])
      assert.is_nil(r)
      assert.equal("EINVAL", code)
    end
  end)
end)
