local probe = require "streamckpt.probe"

describe("world_real: actors", function()
  it("start, step by step, stop, all on one thread of their own, without signals", function()
    for _, wait in ipairs { -1, 0, 2 } do
      local life = probe.world_life(5, wait)
      assert.same({ came = true, gone = true, gone_again = true, stopped = true, in_order = true,
                    same_thread = true, signals = false, steps = 5, early = 0 }, life)
    end
  end)

  it("lose no wake-up, on a condition", function()
    for _, actors in ipairs { 1, 3 } do
      assert.equal(2 * 4000, probe.world_hammer(actors, 2, 4000, false))
    end
  end)

  it("lose no wake-up, in a wait of their own", function()
    for _, actors in ipairs { 1, 3 } do
      assert.equal(2 * 4000, probe.world_hammer(actors, 2, 4000, true))
    end
  end)

  it("that hang in a step are not waited for longer than asked, and may be retired later", function()
    local entered, gone, later = probe.world_hang()
    assert.is_true(entered)
    assert.is_false(gone)
    assert.is_true(later)
  end)

  it("get every mail in its sender's order", function()
    local read, dropped, out_of_order = probe.world_mail(3, 3000, false)
    assert.same({ 9000, 0, 0 }, { read, dropped, out_of_order })
  end)

  it("leave no mail behind when they go: what is not read is dropped", function()
    for _ = 1, 20 do
      local read, dropped, out_of_order = probe.world_mail(2, 500, true)
      assert.equal(1000, read + dropped)
      assert.equal(0, out_of_order)
    end
  end)
end)

describe("world_real: pool", function()
  it("begins works in the order in which they came", function()
    local done, out_of_order = probe.world_pool(1, 500, false, true)
    assert.same({ 500, 0 }, { done, out_of_order })
  end)

  it("does all that was submitted before it ends", function()
    for _, threads in ipairs { 1, 4 } do
      assert.equal(500, (probe.world_pool(threads, 500, false, false)))
    end
  end)

  it("does as many at once as it has threads", function()
    local done, _, lonely = probe.world_pool(4, 4, true, true)
    assert.equal(4, done)
    assert.is_false(lonely)
  end)

  it("may never have been used", function()
    assert.equal(0, (probe.world_pool(0, 0, false, false)))
  end)
end)

describe("world_real: clocks", function()
  it("go on, tell the day, and random numbers differ", function()
    local before, after, now, a, b = probe.world_clocks()
    assert.truthy(after >= before + 1000000) -- a pause of 1 ms lasts 1 ms at least
    assert.truthy(math.abs(now / 1000 - os.time()) < 60)
    assert.not_equal(a, b)
  end)
end)
