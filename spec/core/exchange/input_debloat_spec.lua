-- What an input tells the senders of its gates. One sample: sizes are what the formula wants.
local probe = require "streamckpt.probe"

describe("input", function()
  local pool, channels, outputs, input, debloater

  -- Channels of these edges, from one sender each.
  local function make(edges)
    pool = probe.pool_new(10000)
    channels, outputs = {}, {}
    for i, edge in ipairs(edges) do
      channels[i] = probe.channel_new(4)
      probe.channel_name(channels[i], edge, i, 0, false)
      outputs[i] = probe.output_new("forward", { channels[i] }, pool)
    end
    input = probe.input_new(channels)
    debloater = probe.debloater_new { samples = 1, threshold = 0, segment = 10000, gates = probe.input_n_gates(input) }
  end

  after_each(function()
    probe.input_destroy(input)
    for i, ch in ipairs(channels) do
      probe.output_destroy(outputs[i])
      probe.channel_destroy(ch)
    end
    assert.equal(0, probe.pool_outstanding(pool))
    probe.pool_destroy(pool)
  end)

  -- A buffer with so many records of 100 bytes each.
  local function send(i, records)
    for _ = 1, records do probe.output_emit(outputs[i], ("x"):rep(94)) end
    probe.output_flush(outputs[i])
  end

  local function read(records)
    for _ = 1, records do assert.equal("record", assert(probe.input_next(input)).kind) end
  end

  local function sizes()
    local list = {}
    for i, ch in ipairs(channels) do list[i] = probe.channel_buffer_size(ch) end
    return list
  end

  it("has a gate for each edge", function()
    make { 3, 3, 5, 6, 6 }
    assert.equal(3, probe.input_n_gates(input))
  end)

  it("has no gate without channels", function()
    make {}
    assert.equal(0, probe.input_n_gates(input))
    probe.input_debloat(input, debloater, 0, 0)
  end)

  it("measures what was read, not what was taken", function()
    make { 0 }
    send(1, 20)
    send(1, 1)
    probe.input_debloat(input, debloater, 0, 0)
    read(15) -- 1,500 bytes of the 2,000 that it took, in a second
    probe.input_debloat(input, debloater, 1000, 1000)
    assert.same({ 1500 }, sizes()) -- one buffer is queued
  end)

  it("sizes each gate by what is queued at it, all of its channels alike", function()
    make { 3, 3, 5 }
    probe.input_debloat(input, debloater, 0, 0)
    send(1, 12)
    read(12)
    assert.equal("none", assert(probe.input_next(input)).kind)
    for _ = 1, 3 do send(2, 1) end
    probe.input_debloat(input, debloater, 1000, 1000)
    assert.same({ 400, 400, 1200 }, sizes()) -- over three buffers, and over none
    assert.equal(1200, probe.usage(channels).buffer_size)
  end)

  it("does not count as read what waits at a channel that is held back", function()
    make { 0, 0 }
    probe.input_debloat(input, debloater, 0, 0)
    send(1, 20)
    read(5)
    probe.input_spare(input, true) -- only channels that cannot be captured are read
    assert.equal("none", assert(probe.input_next(input)).kind)
    probe.input_debloat(input, debloater, 1000, 1000)
    assert.same({ 500, 500 }, sizes())
    probe.input_spare(input, false)
    read(15)
    probe.input_debloat(input, debloater, 2000, 2000)
    assert.same({ 1000, 1000 }, sizes()) -- 1,500, but at most twice
  end)
end)
