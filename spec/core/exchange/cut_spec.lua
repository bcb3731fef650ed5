local probe = require "streamckpt.probe"

describe("cut", function()
  it("is complete when its last hold is released, once", function()
    local cut = probe.cut_new(7)
    local ch, other = probe.channel_new(1), probe.channel_new(1)
    assert.same({ 0, 1 }, { probe.cut_state(cut) })
    probe.channel_barrier(ch, 7, 100, false, cut)
    probe.channel_capture(other, cut)
    assert.same({ 0, 3 }, { probe.cut_state(cut) })
    probe.cut_release(cut)
    probe.channel_move(ch, 7)
    assert.same({ 0, 1 }, { probe.cut_state(cut) })
    probe.channel_push_close(other)
    probe.channel_take(other)
    assert.same({ 1, 0 }, { probe.cut_state(cut) })
    assert.is_false(probe.cut_drop(cut)) -- too late
    probe.cut_destroy(cut)
    probe.channel_destroy(ch)
    probe.channel_destroy(other)
  end)

  it("knows whose capture ended last, and of no sender's part", function()
    local cut, channels = probe.cut_new(7), {}
    for i = 1, 3 do
      channels[i] = probe.channel_new(1)
      probe.channel_name(channels[i], 4, i, 0, false)
      probe.channel_capture(channels[i], cut)
    end
    local pool, out = probe.pool_new(100), probe.channel_new(5)
    probe.channel_name(out, 5, 9, 0, false)
    probe.channel_push(out, pool, "a")
    probe.channel_barrier(out, 7, 100, false, cut)
    assert.same({}, { probe.cut_last_capture(cut) })
    for _, i in ipairs { 2, 1, 3 } do
      probe.channel_push_close(channels[i])
      probe.channel_take(channels[i])
      assert.same({ 4, i }, { probe.cut_last_capture(cut) })
    end
    probe.channel_move(out, 7)
    assert.same({ 4, 3 }, { probe.cut_last_capture(cut) })
    probe.cut_release(cut)
    assert.same({ 1, 0 }, { probe.cut_state(cut) })
    probe.cut_destroy(cut)
    for i = 1, 3 do probe.channel_destroy(channels[i]) end
    probe.channel_destroy(out)
    probe.pool_destroy(pool)
  end)

  it("dropped is never complete, and keeps nothing", function()
    local pool, ch, cut = probe.pool_new(100), probe.channel_new(5), probe.cut_new(1)
    probe.channel_push(ch, pool, "a")
    probe.channel_barrier(ch, 1, 100, false, cut)
    probe.cut_release(cut)
    assert.is_true(probe.cut_drop(cut))
    assert.is_true(probe.channel_move(ch, 1))
    assert.same({ 0, 0 }, { probe.cut_state(cut) })
    assert.same({}, probe.cut_take(cut))
    assert.equal("barrier", probe.channel_take(ch))
    assert.equal("data", probe.channel_take(ch))
    assert.equal(0, probe.pool_outstanding(pool))
    probe.cut_destroy(cut)
    probe.channel_destroy(ch)
    probe.pool_destroy(pool)
  end)
end)

-- Real threads: what each sender had sent before its start is processed before the receiver's, or
-- kept, once and in order, whoever moved which barrier when; and nothing is lost on the way.
describe("cuts between threads", function()
  local function storm(options)
    options.seed = os.time()
    print("cut seed " .. options.seed)
    local fault, records, complete, overtaken, kept = probe.cut_hammer(options)
    assert.is_nil(fault, fault and fault .. ", seed " .. options.seed)
    assert.equal(options.senders * options.total, records)
    assert.is_true(complete > 0 and overtaken > 0 and kept > 0)
  end

  it("are consistent, one sender", function()
    storm { senders = 1, total = 60000, checkpoints = 100000, exclusive = 3, segment = 64 }
  end)

  it("are consistent, several senders", function()
    storm { senders = 2, total = 30000, checkpoints = 100000, exclusive = 1, segment = 32 }
    storm { senders = 4, total = 20000, checkpoints = 100000, exclusive = 4, segment = 64 }
  end)
end)
