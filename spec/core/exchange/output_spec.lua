local probe = require "streamckpt.probe"

local MAX = math.maxinteger

-- The records of a buffer, by the layout in record.h, read here once more from scratch.
local function records(bytes)
  local list, at = {}, 1
  while at <= #bytes do
    local length, kind, flags = string.unpack("<I4BB", bytes, at)
    local stop, from = at + 4 + length, at + 6
    local r = { kind = kind }
    if flags & 1 ~= 0 then r.timestamp, from = string.unpack("<i8", bytes, from) end
    if flags & 2 ~= 0 then
      r.key_group, r.key, from = string.unpack("<I2s4", bytes, from)
    end
    r.value = bytes:sub(from, stop - 1)
    list[#list + 1] = r
    at = stop
  end
  return list
end

-- All that is queued: "a b|c B1 E C": records of a buffer together, buffers apart, W9 a watermark,
-- active/idle a status.
local function drain(ch)
  local out = {}
  while true do
    local kind, a = probe.channel_take(ch)
    if not kind then return table.concat(out, "|") end
    if kind == "data" then
      local words = {}
      for _, r in ipairs(records(a)) do
        words[#words + 1] = r.kind == 1 and "W" .. (r.timestamp == MAX and "max" or r.timestamp)
          or r.kind == 2 and (r.value == "\xc3" and "active" or "idle") or r.value
      end
      out[#out + 1] = table.concat(words, " ")
    else
      out[#out + 1] = kind == "barrier" and "B" .. a or kind == "end" and "E" or "C"
    end
  end
end

describe("output", function()
  local pool, channels, output

  local function make(partitioner, n, options)
    options = options or {}
    pool = probe.pool_new(options.segment or 100)
    channels = {}
    for i = 1, n do channels[i] = probe.channel_new(options.exclusive or 2) end
    output = probe.output_new(partitioner, channels, pool, options.max_parallelism, options.subtask)
  end

  after_each(function()
    probe.output_destroy(output)
    for _, ch in ipairs(channels) do probe.channel_destroy(ch) end
    assert.equal(0, probe.pool_outstanding(pool))
    probe.pool_destroy(pool)
  end)

  it("pushes a buffer when the next record does not fit", function()
    make("forward", 1, { segment = 20 })
    probe.output_emit(output, "ab") -- 8 bytes
    probe.output_emit(output, "cd")
    assert.is_true(probe.channel_empty(channels[1]))
    probe.output_emit(output, "ef")
    assert.equal("ab cd", drain(channels[1]))
    assert.is_false(probe.output_drained(output))
    probe.output_flush(output)
    assert.equal("ef", drain(channels[1]))
    probe.output_flush(output)
    assert.equal("", drain(channels[1]))
  end)

  it("pushes a full buffer at once", function()
    make("forward", 1, { segment = 16 })
    probe.output_emit(output, "ab")
    probe.output_emit(output, "cd")
    assert.equal("ab cd", drain(channels[1]))
    assert.is_true(probe.output_drained(output))
  end)

  it("gives a record that is larger than a segment a buffer of its own", function()
    make("forward", 1, { segment = 20 })
    local large = ("x"):rep(1000)
    probe.output_emit(output, "ab")
    probe.output_emit(output, large)
    probe.output_emit(output, "cd")
    probe.output_flush(output)
    assert.equal("ab|" .. large .. "|cd", drain(channels[1]))
  end)

  it("fills buffers no further than the receiver asks for, from the next one on", function()
    make("forward", 1, { segment = 100, exclusive = 9 })
    probe.output_emit(output, "a1") -- 8 bytes
    probe.channel_set_buffer_size(channels[1], 20)
    for i = 2, 12 do probe.output_emit(output, "a" .. string.char(("0"):byte() + i)) end
    -- The one that was begun takes twelve; the next two each.
    for i = 1, 5 do probe.output_emit(output, "b" .. i) end
    assert.equal("a1 a2 a3 a4 a5 a6 a7 a8 a9 a: a; a<|b1 b2|b3 b4", drain(channels[1]))
    probe.channel_set_buffer_size(channels[1], 16)
    probe.output_emit(output, "c1") -- into the one that b5 has begun
    for i = 2, 5 do probe.output_emit(output, "c" .. i) end
    assert.equal("b5 c1|c2 c3|c4 c5", drain(channels[1])) -- 16 bytes are full at once
    assert.is_true(probe.output_drained(output))
    probe.channel_set_buffer_size(channels[1], 100)
    for i = 1, 8 do probe.output_emit(output, "d" .. i) end
    assert.equal("", drain(channels[1]))
  end)

  it("lets a record pass that is larger than that, and counts it as so many buffers", function()
    make("forward", 1, { segment = 1000, exclusive = 4 })
    local function units() return 4 * probe.usage(channels).in_pool end
    probe.channel_set_buffer_size(channels[1], 20)
    probe.output_emit(output, "ab")
    probe.output_emit(output, ("x"):rep(53)) -- 59 bytes: 3 times 20
    assert.equal(1 + 3, units())
    assert.is_false(probe.output_has_room(output))
    probe.output_emit(output, ("y"):rep(1994)) -- 2000 bytes: 100 times 20, though two segments
    assert.equal(1 + 3 + 100, units())
    probe.output_emit(output, "cd")
    assert.is_false(probe.output_drained(output)) -- it is not full
    probe.output_flush(output)
    assert.equal(1 + 3 + 100 + 1, units())
    assert.equal("ab|" .. ("x"):rep(53) .. "|" .. ("y"):rep(1994) .. "|cd", drain(channels[1]))
    assert.is_true(probe.output_has_room(output))
  end)

  it("asks each channel for itself", function()
    make("hash", 2, { max_parallelism = 2, exclusive = 9 })
    probe.channel_set_buffer_size(channels[2], 16) -- a keyed record of one byte has 14
    for i = 1, 4 do
      probe.output_emit(output, "a", 0)
      probe.output_emit(output, tostring(i), 1)
    end
    assert.equal("", drain(channels[1]))
    assert.equal("1|2|3", drain(channels[2]))
  end)

  it("keeps timestamp, key group and key with the record", function()
    make("forward", 1)
    probe.output_emit(output, "v", 77, -5)
    probe.output_flush(output)
    local _, bytes = probe.channel_take(channels[1])
    assert.same({ { kind = 0, timestamp = -5, key_group = 77, key = "k", value = "v" } },
      records(bytes))
  end)

  it("sends records where the partitioner says", function()
    make("hash", 2, { max_parallelism = 10 })
    for g = 0, 9 do probe.output_emit(output, tostring(g), g) end
    probe.output_flush(output)
    assert.equal("0 1 2 3 4", drain(channels[1]))
    assert.equal("5 6 7 8 9", drain(channels[2]))
    local kind, max_parallelism, count, bytes = probe.output_info(output)
    assert.same({ "hash", 10, 10, 10 * (6 + 7 + 1) }, { kind, max_parallelism, count, bytes })
  end)

  it("broadcasts, counting a record once and its bytes as often as they are sent", function()
    make("broadcast", 3)
    probe.output_emit(output, "ab")
    probe.output_flush(output)
    for i = 1, 3 do assert.equal("ab", drain(channels[i])) end
    local kind, _, count, bytes = probe.output_info(output)
    assert.same({ "broadcast", 1, 24 }, { kind, count, bytes })
  end)

  it("begins round robin at the sender's subtask", function()
    make("rebalance", 3, { subtask = 1 })
    for i = 1, 4 do probe.output_emit(output, tostring(i)) end
    probe.output_flush(output)
    assert.equal("3", drain(channels[1]))
    assert.equal("1 4", drain(channels[2]))
    assert.equal("2", drain(channels[3]))
  end)

  it("sends watermarks and status in band to every channel", function()
    make("rebalance", 2)
    probe.output_emit(output, "a")
    probe.output_watermark(output, 9)
    probe.output_status(output, true)
    probe.output_status(output, false)
    probe.output_flush(output)
    assert.equal("a W9 idle active", drain(channels[1]))
    assert.equal("W9 idle active", drain(channels[2]))
  end)

  it("says that it is active again before a watermark, except the last one", function()
    make("forward", 1)
    probe.output_status(output, true)
    probe.output_watermark(output, 5)
    probe.output_watermark(output, 6)
    probe.output_status(output, true)
    probe.output_watermark(output, MAX)
    probe.output_flush(output)
    assert.equal("idle active W5 W6 idle Wmax", drain(channels[1]))
  end)

  it("seals the half-filled buffer before a barrier, the end, and the close", function()
    make("rebalance", 2, { exclusive = 9 })
    probe.output_emit(output, "a")
    probe.output_barrier(output, 1)
    probe.output_emit(output, "b")
    probe.output_end(output)
    probe.output_barrier(output, 2)
    probe.output_close(output)
    assert.equal("a|B1|E|B2|C", drain(channels[1]))
    assert.equal("B1|b|E|B2|C", drain(channels[2]))
  end)

  it("has room while all channels have", function()
    make("rebalance", 2, { segment = 8, exclusive = 1 })
    assert.is_true(probe.output_has_room(output))
    probe.output_emit(output, "ab")
    assert.is_false(probe.output_has_room(output))
    probe.output_emit(output, "cd") -- fills the other one
    probe.channel_take(channels[1])
    assert.is_false(probe.output_has_room(output))
    probe.channel_take(channels[2])
    assert.is_true(probe.output_has_room(output))
  end)

  it("is drained when nothing is half filled and all queues are empty", function()
    make("forward", 1)
    assert.is_true(probe.output_drained(output))
    probe.output_emit(output, "a")
    assert.is_false(probe.output_drained(output))
    probe.output_end(output)
    assert.is_false(probe.output_drained(output))
    drain(channels[1])
    assert.is_true(probe.output_drained(output))
  end)

  it("drops what was not flushed", function()
    make("broadcast", 2)
    probe.output_emit(output, "a")
    assert.equal(2, probe.pool_outstanding(pool))
  end)
end)
