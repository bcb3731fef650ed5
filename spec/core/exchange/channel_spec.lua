local probe = require "streamckpt.probe"

describe("buffer", function()
  it("is one segment, or as large as its record and charged as several", function()
    local pool = probe.pool_new(100)
    local a, cap, units = probe.pool_take(pool, 1)
    assert.same({ 100, 1 }, { cap, units })
    local b, cap2, units2 = probe.pool_take(pool, 100)
    assert.same({ 100, 1 }, { cap2, units2 })
    local c, cap3, units3 = probe.pool_take(pool, 101)
    assert.same({ 101, 2 }, { cap3, units3 })
    local d, cap4, units4 = probe.pool_take(pool, 1000)
    assert.same({ 1000, 10 }, { cap4, units4 })
    assert.equal(4, probe.pool_outstanding(pool))
    for _, buffer in ipairs { a, b, c, d } do probe.buffer_unref(buffer) end
    assert.equal(0, probe.pool_outstanding(pool))
    probe.pool_destroy(pool)
  end)

  it("is given back by the last holder, and used again", function()
    local pool = probe.pool_new(0) -- the default size
    local a, cap = probe.pool_take(pool, 5)
    assert.equal(32 * 1024, cap)
    probe.buffer_ref(a)
    probe.buffer_unref(a)
    assert.equal(1, probe.pool_outstanding(pool))
    probe.buffer_unref(a)
    assert.equal(0, probe.pool_outstanding(pool))
    assert.equal(a, (probe.pool_take(pool, 5)))
    probe.buffer_unref(a)
    probe.pool_destroy(pool)
  end)
end)

describe("channel", function()
  local pool

  before_each(function() pool = probe.pool_new(10) end)
  after_each(function()
    assert.equal(0, probe.pool_outstanding(pool))
    probe.pool_destroy(pool)
  end)

  it("hands on elements in order", function()
    local ch = probe.channel_new(2)
    assert.is_true(probe.channel_empty(ch))
    assert.is_nil(probe.channel_peek(ch))
    assert.is_nil(probe.channel_take(ch))
    probe.channel_push(ch, pool, "one")
    probe.channel_push_barrier(ch, 7, 123)
    probe.channel_push(ch, pool, "a longer one than a segment")
    probe.channel_push_end(ch)
    probe.channel_push_barrier(ch, 8, 456)
    probe.channel_push_close(ch)
    assert.is_false(probe.channel_empty(ch))
    assert.same({ 2, 30 }, { probe.channel_usage(ch) })
    assert.equal("data", probe.channel_peek(ch))
    assert.same({ "data", "one" }, { probe.channel_take(ch) })
    assert.equal("barrier", probe.channel_peek(ch))
    assert.same({ "barrier", 7, 123 }, { probe.channel_take(ch) })
    assert.same({ "data", "a longer one than a segment" }, { probe.channel_take(ch) })
    assert.same({ "end" }, { probe.channel_take(ch) })
    assert.same({ "barrier", 8, 456 }, { probe.channel_take(ch) })
    assert.same({ "close" }, { probe.channel_take(ch) })
    assert.is_true(probe.channel_empty(ch))
    assert.same({ 0, 0 }, { probe.channel_usage(ch) })
    probe.channel_destroy(ch)
  end)

  it("takes END and CLOSE once", function()
    local ch = probe.channel_new(2)
    probe.channel_push_end(ch)
    probe.channel_push_end(ch)
    probe.channel_push_close(ch)
    probe.channel_push_close(ch)
    probe.channel_push_end(ch)
    assert.equal("end", (probe.channel_take(ch)))
    assert.equal("close", (probe.channel_take(ch)))
    assert.is_nil(probe.channel_take(ch))
    probe.channel_destroy(ch)
  end)

  it("keeps any number of elements in order while it grows and wraps", function()
    local ch, pushed, taken = probe.channel_new(1), 0, 0
    for round = 1, 40 do
      for _ = 1, round % 7 + 3 do
        pushed = pushed + 1
        probe.channel_push_barrier(ch, pushed)
      end
      for _ = 1, round % 5 + 1 do
        local kind, id = probe.channel_take(ch)
        if kind then
          taken = taken + 1
          assert.equal(taken, id)
        end
      end
    end
    while probe.channel_take(ch) do taken = taken + 1 end
    assert.equal(pushed, taken)
    probe.channel_destroy(ch)
  end)

  it("has room below its exclusive units; barriers cost nothing", function()
    local ch = probe.channel_new(2)
    probe.channel_push(ch, pool, "1")
    assert.is_true(probe.channel_has_room(ch))
    probe.channel_push_barrier(ch, 1)
    assert.is_true(probe.channel_has_room(ch))
    probe.channel_push(ch, pool, "2")
    assert.is_false(probe.channel_has_room(ch))
    probe.channel_take(ch)
    assert.is_true(probe.channel_has_room(ch))
    probe.channel_destroy(ch) -- with elements in it
  end)

  it("always has room when it is empty, even without an exclusive share", function()
    local ch = probe.channel_new(0)
    assert.is_true(probe.channel_has_room(ch))
    probe.channel_push(ch, pool, "1")
    assert.is_false(probe.channel_has_room(ch))
    probe.channel_destroy(ch)
  end)

  it("borrows floating units above its own, and gives them back when buffers are taken", function()
    local floating = probe.floating_new(3)
    local a, b = probe.channel_new(1, floating), probe.channel_new(1, floating)
    probe.channel_push(a, pool, "1")
    assert.equal(3, probe.floating_available(floating))
    probe.channel_push(a, pool, "2")
    probe.channel_push(a, pool, "3")
    assert.equal(1, probe.floating_available(floating))
    probe.channel_push(b, pool, "1")
    probe.channel_push(b, pool, "2")
    assert.equal(0, probe.floating_available(floating))
    assert.is_false(probe.channel_has_room(a))
    assert.is_false(probe.channel_has_room(b))
    probe.channel_take(a)
    assert.equal(1, probe.floating_available(floating))
    assert.is_true(probe.channel_has_room(b)) -- what its sibling gave back
    probe.channel_take(a)
    probe.channel_take(a)
    assert.equal(2, probe.floating_available(floating))
    probe.channel_destroy(b)
    assert.equal(3, probe.floating_available(floating))
    probe.channel_destroy(a)
    probe.floating_unref(floating)
  end)

  it("an empty channel has room although held-back siblings borrowed everything", function()
    local floating = probe.floating_new(2)
    local held, awaited = probe.channel_new(0, floating), probe.channel_new(0, floating)
    for _ = 1, 3 do probe.channel_push(held, pool, "x") end
    assert.equal(0, probe.floating_available(floating))
    assert.is_true(probe.channel_has_room(awaited))
    probe.channel_destroy(held)
    probe.channel_destroy(awaited)
    probe.floating_unref(floating)
  end)

  it("takes overdraft, which has to be worked off before there is room again", function()
    local floating = probe.floating_new(2)
    local ch = probe.channel_new(1, floating)
    probe.channel_push(ch, pool, ("x"):rep(55)) -- 6 units: 1 own, 2 floating, 3 overdraft
    assert.equal(0, probe.floating_available(floating))
    probe.channel_push(ch, pool, "y")
    assert.is_false(probe.channel_has_room(ch))
    assert.same({ "data", ("x"):rep(55) }, { probe.channel_take(ch) })
    assert.equal(2, probe.floating_available(floating))
    assert.is_true(probe.channel_has_room(ch)) -- by the floating share
    probe.channel_destroy(ch)
    probe.floating_unref(floating)

    local plain = probe.channel_new(1)
    for i = 1, 4 do probe.channel_push(plain, pool, tostring(i)) end
    for _ = 1, 3 do
      probe.channel_take(plain)
      assert.is_false(probe.channel_has_room(plain))
    end
    probe.channel_take(plain)
    assert.is_true(probe.channel_has_room(plain))
    probe.channel_destroy(plain)
  end)

  it("an overdraft is not worked off by fewer units that a sibling gives back", function()
    local floating = probe.floating_new(1)
    local a, b = probe.channel_new(1, floating), probe.channel_new(1, floating)
    probe.channel_push(b, pool, "1")
    probe.channel_push(b, pool, "2") -- has the floating unit
    for _ = 1, 3 do probe.channel_push(a, pool, "x") end -- two of overdraft
    probe.channel_take(b)
    assert.equal(1, probe.floating_available(floating))
    assert.is_false(probe.channel_has_room(a))
    probe.channel_destroy(a)
    probe.channel_destroy(b)
    probe.floating_unref(floating)
  end)

  it("wakes the consumer by the push that finds it empty, of any kind", function()
    local ch = probe.channel_new(2)
    local function woken(push, ...)
      push(ch, ...)
      local _, consumer = probe.channel_wakes(ch)
      return consumer
    end
    assert.equal(1, woken(probe.channel_push, pool, "1"))
    assert.equal(0, woken(probe.channel_push, pool, "2"))
    assert.equal(0, woken(probe.channel_push_barrier, 1))
    for _ = 1, 3 do probe.channel_take(ch) end
    assert.equal(1, woken(probe.channel_push_barrier, 2))
    probe.channel_take(ch)
    assert.equal(1, woken(probe.channel_push_end))
    probe.channel_take(ch)
    assert.equal(1, woken(probe.channel_push_close))
    probe.channel_destroy(ch)
  end)

  it("wakes the producer that was told to wait, once, when there is room", function()
    local ch = probe.channel_new(2)
    for i = 1, 4 do probe.channel_push(ch, pool, tostring(i)) end
    probe.channel_take(ch)
    assert.equal(0, (probe.channel_wakes(ch))) -- nobody asked
    assert.is_false(probe.channel_has_room(ch))
    probe.channel_take(ch)
    assert.equal(0, (probe.channel_wakes(ch))) -- still full
    probe.channel_take(ch)
    assert.equal(1, (probe.channel_wakes(ch)))
    probe.channel_take(ch)
    assert.equal(0, (probe.channel_wakes(ch)))
    probe.channel_destroy(ch)
  end)

  it("wakes a producer that a sibling starves by a take of its own at the latest", function()
    local floating = probe.floating_new(1)
    local a, b = probe.channel_new(1, floating), probe.channel_new(1, floating)
    probe.channel_push(a, pool, "1")
    for _ = 1, 2 do probe.channel_push(b, pool, "x") end
    assert.is_false(probe.channel_has_room(a))
    probe.channel_take(b)
    assert.is_true(probe.channel_has_room(a))
    probe.channel_take(a)
    assert.equal(1, (probe.channel_wakes(a)))
    probe.channel_destroy(a)
    probe.channel_destroy(b)
    probe.floating_unref(floating)
  end)

  it("wakes the producer that is leaving when its queue is drained", function()
    local ch = probe.channel_new(2)
    probe.channel_push(ch, pool, "1")
    probe.channel_push_end(ch)
    probe.channel_take(ch)
    assert.equal(0, (probe.channel_wakes(ch)))
    probe.channel_take(ch)
    assert.equal(1, (probe.channel_wakes(ch)))
    probe.channel_push_barrier(ch, 1)
    probe.channel_take(ch)
    assert.equal(1, (probe.channel_wakes(ch)))
    probe.channel_destroy(ch)
  end)

  it("drops everything once its receiver is gone, is never full, and wakes the producer", function()
    local floating = probe.floating_new(2)
    local ch = probe.channel_new(1, floating)
    for _ = 1, 5 do probe.channel_push(ch, pool, "x") end
    probe.channel_push_barrier(ch, 1)
    assert.is_false(probe.channel_has_room(ch))
    probe.channel_wakes(ch)
    probe.channel_receiver_gone(ch)
    assert.is_true((probe.channel_wakes(ch)) >= 1)
    assert.equal(0, probe.pool_outstanding(pool))
    assert.equal(2, probe.floating_available(floating))
    for _ = 1, 5 do
      assert.is_true(probe.channel_has_room(ch))
      probe.channel_push(ch, pool, "y")
    end
    probe.channel_push_barrier(ch, 2)
    probe.channel_push_end(ch)
    probe.channel_push_close(ch)
    assert.is_true(probe.channel_empty(ch))
    assert.is_nil(probe.channel_take(ch))
    assert.same({ 0, 0 }, { probe.channel_usage(ch) })
    probe.channel_receiver_gone(ch) -- again
    probe.channel_destroy(ch)
    probe.floating_unref(floating)
  end)

  it("needs nobody to wake where both ends are on one thread", function()
    local ch = probe.channel_new(1, nil, true)
    probe.channel_push(ch, pool, "1")
    assert.is_false(probe.channel_has_room(ch))
    probe.channel_take(ch)
    probe.channel_receiver_gone(ch)
    probe.channel_destroy(ch)
  end)
end)

describe("channel with barriers that overtake", function()
  local pool, ch, cuts

  before_each(function() pool, ch, cuts = probe.pool_new(100), probe.channel_new(1), {} end)
  after_each(function()
    probe.channel_destroy(ch)
    for _, cut in ipairs(cuts) do
      probe.cut_take(cut)
      probe.cut_destroy(cut)
    end
    assert.equal(0, probe.pool_outstanding(pool))
    probe.pool_destroy(pool)
  end)

  local function barrier(id, at, now)
    local cut = probe.cut_new(id)
    cuts[#cuts + 1] = cut
    probe.channel_barrier(ch, id, at, now, cut)
    probe.cut_release(cut)
  end

  local function all()
    local out = {}
    while true do
      local kind, what = probe.channel_take(ch)
      if not kind then return table.concat(out, " ") end
      out[#out + 1] = kind == "barrier" and "B" .. what or what or kind
    end
  end

  it("puts them at the head, behind those that stand there, and leaves the rest as it is", function()
    probe.channel_push(ch, pool, "a")
    barrier(1, 0)
    probe.channel_push(ch, pool, "b")
    barrier(2, 1, true)
    probe.channel_push_end(ch)
    barrier(3, 1, true)
    assert.equal("B2 B3 a B1 b end", all())
  end)

  it("moves the one that waits, over what stands before it and no further", function()
    probe.channel_push(ch, pool, "a")
    barrier(1, 100)
    probe.channel_push(ch, pool, "b")
    assert.is_false(probe.channel_move(ch, 2))
    assert.is_true(probe.channel_move(ch, 1))
    assert.is_false(probe.channel_move(ch, 1)) -- once
    assert.equal("B1 a b", all())
  end)

  it("moves none that was said to be aligned", function()
    probe.channel_push(ch, pool, "a")
    barrier(1, 0)
    assert.is_false(probe.channel_move(ch, 1))
    assert.equal("a B1", all())
  end)

  it("changes nothing of the room: what is overtaken is still queued", function()
    probe.channel_push(ch, pool, "a")
    assert.is_false(probe.channel_has_room(ch))
    barrier(1, 1, true)
    assert.is_false(probe.channel_has_room(ch))
    assert.equal("barrier", probe.channel_take(ch))
    assert.is_false(probe.channel_has_room(ch))
    assert.equal("data", probe.channel_take(ch))
    assert.is_true(probe.channel_has_room(ch))
    assert.equal(1, probe.pool_outstanding(pool)) -- the cut's reference
  end)

  it("wakes the consumer in any case: it may be waiting for room", function()
    probe.channel_push(ch, pool, "a")
    probe.channel_wakes(ch)
    barrier(1, 0)
    assert.equal(0, (select(2, probe.channel_wakes(ch)))) -- aligned: it knows that something is there
    barrier(2, 100)
    assert.equal(1, (select(2, probe.channel_wakes(ch))))
    probe.channel_move(ch, 2)
    assert.equal(1, (select(2, probe.channel_wakes(ch))))
  end)
end)

-- Real threads, so small bounds that both sides sleep all the time. Only counts are checked; a
-- wake-up that is lost is told by the probe, which waits for it much longer than any run takes.
describe("channel between threads", function()
  local function hammer(options)
    options.seed = os.time()
    print("hammer seed " .. options.seed)
    local fault, records, snapshots, floating, waits = probe.channel_hammer(options)
    assert.is_nil(fault, fault and fault .. ", seed " .. options.seed)
    assert.equal(options.floating or 0, floating)
    return records, snapshots, waits
  end

  it("loses no record and no wake-up, one sender", function()
    local records, snapshots = hammer {
      senders = 1, total = 100000, every = 100, exclusive = 1, segment = 32 }
    assert.equal(100000, records)
    assert.equal(1000, snapshots)
  end)

  it("loses no record and no wake-up, senders that share floating units", function()
    local records, snapshots = hammer {
      senders = 3, total = 30000, every = 50, exclusive = 1, floating = 2, segment = 32 }
    assert.equal(90000, records)
    assert.equal(600, snapshots)
  end)

  it("lets the senders finish when the receiver leaves", function()
    for after = 1, 300, 23 do
      hammer { senders = 2, total = 1000, every = 100, exclusive = 1, floating = 1, segment = 32,
        leave_after = after }
    end
  end)
end)
