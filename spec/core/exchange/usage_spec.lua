-- How full queues are: pools of 10-byte segments, so that a text of up to ten bytes is one unit.
local probe = require "streamckpt.probe"

describe("usage", function()
  local pool, floating, one, two

  before_each(function()
    pool, floating = probe.pool_new(10), probe.floating_new(3)
    one, two = probe.channel_new(2, floating), probe.channel_new(2, floating)
  end)
  after_each(function()
    probe.channel_destroy(one)
    probe.channel_destroy(two)
    probe.floating_unref(floating)
    assert.equal(0, probe.pool_outstanding(pool))
    probe.pool_destroy(pool)
  end)

  it("is nothing where nothing is queued", function()
    local empty = { buffers = 0.0, bytes = 0.0, passed_buffers = 0.0, passed_bytes = 0.0, in_pool = 0.0,
                    out_pool = 0.0, exclusive = 0.0, floating = 0.0, buffer_size = 0.0 }
    assert.same(empty, probe.usage { one, two })
    assert.same(empty, probe.usage {})
  end)

  it("counts what is queued, and what has passed", function()
    for _, text in ipairs { "ten bytes.", "four", "x" } do probe.channel_push(one, pool, text) end
    probe.channel_take(one)
    local u = probe.usage { one }
    assert.same({ 2.0, 5.0, 3.0, 15.0 }, { u.buffers, u.bytes, u.passed_buffers, u.passed_bytes })
  end)

  it("is a share of what a gate's channels have for themselves and together", function()
    -- Three units in the one: two are its own, one is borrowed. One in the other.
    for _ = 1, 3 do probe.channel_push(one, pool, "x") end
    probe.channel_push(two, pool, "x")
    local gate = probe.usage { one, two }
    assert.equal(4 / (2 + 2 + 3), gate.in_pool)
    assert.equal(3 / 4, gate.exclusive)
    assert.equal(1 / 3, gate.floating)
    -- The sender of the one has its two, the one that it borrowed, and the two that are left to borrow.
    assert.equal(3 / (2 + 1 + 2), probe.usage { one }.out_pool)
    assert.equal(1 / (2 + 2), probe.usage { two }.out_pool)
  end)

  it("tells the largest size of buffers that is asked for", function()
    probe.channel_set_buffer_size(one, 700)
    assert.equal(700, probe.usage { one, two }.buffer_size)
    probe.channel_set_buffer_size(two, 900)
    assert.equal(900, probe.usage { one, two }.buffer_size)
  end)

  it("is 1 when full, and more with overdraft", function()
    for _ = 1, 5 do probe.channel_push(one, pool, "x") end
    assert.equal(1, probe.usage { one }.out_pool)
    assert.equal(1, probe.usage { one }.floating)
    assert.is_false(probe.channel_has_room(one))
    probe.channel_push(one, pool, "x")
    assert.equal(6 / 5, probe.usage { one }.out_pool)
    for _ = 1, 2 do probe.channel_push(two, pool, "x") end
    assert.equal(8 / 7, probe.usage { one, two }.in_pool)
  end)
end)
