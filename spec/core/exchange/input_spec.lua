local probe = require "streamckpt.probe"

local MAX = math.maxinteger

describe("input", function()
  local pool, channels, outputs, input

  local function make(n, options)
    options = options or {}
    pool = probe.pool_new(options.segment or 100)
    channels, outputs = {}, {}
    for c = 0, n - 1 do
      channels[c + 1] = probe.channel_new(options.exclusive or 2)
      outputs[c] = probe.output_new("forward", { channels[c + 1] }, pool)
    end
    input = probe.input_new(channels, options.ports, options.at_least_once)
  end

  local function close()
    if not pool then return end
    probe.input_destroy(input)
    for c = 0, #channels - 1 do probe.output_destroy(outputs[c]) end
    for _, ch in ipairs(channels) do probe.channel_destroy(ch) end
    assert.equal(0, probe.pool_outstanding(pool))
    probe.pool_destroy(pool)
    pool = nil
  end

  after_each(close)

  local function show(e)
    local text = e.kind == "record" and e.value
      or e.kind == "watermark" and "W" .. (e.watermark == MAX and "max" or e.watermark)
      or e.kind == "status" and (e.idle and "idle" or "active")
      or e.kind == "snapshot" and "S" .. e.id
      or e.kind == "aborted" and "-" .. e.aborted
        .. (e.superseded_by ~= 0 and "<" .. e.superseded_by or "")
      or e.kind == "end" and "END" or e.kind == "closed" and "CLOSED" or "none"
    return e.first and text .. "!" .. e.first or text
  end

  -- Everything that can be read now; "!n" marks the event that follows the first barrier of n.
  local function read()
    local out = {}
    while true do
      local e = assert(probe.input_next(input))
      if e.kind == "none" then
        if e.first then out[#out + 1] = show(e) end
        return table.concat(out, " ")
      end
      out[#out + 1] = show(e)
    end
  end

  it("says that something was taken, though it told nothing: its sender may have room now", function()
    make(2, { exclusive = 1 })
    probe.output_watermark(outputs[0], 7) -- the other channel has none yet
    probe.output_flush(outputs[0])
    assert.is_false(probe.output_has_room(outputs[0]))
    assert.same({ kind = "none", took = true }, probe.input_next(input))
    assert.is_true(probe.output_has_room(outputs[0]))
    assert.same({ kind = "none" }, probe.input_next(input))
    probe.output_watermark(outputs[1], 5)
    probe.output_flush(outputs[1])
    assert.equal("W5", read())
  end)

  it("reads a buffer ahead in bulks, each record once, in order, and never too far", function()
    local AHEAD, BULK, N = 32, 8, 100
    make(1, { segment = 20000 })
    for i = 1, N do
      if i % 5 == 0 then probe.output_emit(outputs[0], "\1") -- without a key
      else probe.output_emit(outputs[0], "\1", i) end
      if i == 20 then probe.output_watermark(outputs[0], 7) end
    end
    probe.output_flush(outputs[0])
    assert.same({}, probe.input_ahead(input)) -- no buffer is being read yet
    local told, taken = {}, 0
    for _ = 1, N + 1 do
      local e = assert(probe.input_next(input))
      if e.kind == "record" then taken = taken + 1 end
      if taken ~= 40 then -- once nobody looks: more room is made for the next look
        for bulk in function() local b = probe.input_ahead(input) return b[1] and b end do
          assert.is_true(#bulk <= BULK)
          for _, group in ipairs(bulk) do
            assert.is_true(group == 0 or group > taken and group <= taken + AHEAD)
            if group > 0 then told[#told + 1] = group end
          end
        end
      end
    end
    local expected = {}
    for i = 2, N do if i % 5 ~= 0 then expected[#expected + 1] = i end end
    assert.same(expected, told)
    assert.equal("none", probe.input_next(input).kind)
    assert.same({}, probe.input_ahead(input))
  end)

  it("goes on behind what was read while nobody looked", function()
    make(1, { segment = 20000 })
    for i = 1, 60 do probe.output_emit(outputs[0], "v" .. i, i) end
    probe.output_flush(outputs[0])
    for i = 1, 3 do assert.equal("v" .. i, probe.input_next(input).value) end
    assert.same({ 4, 5, 6, 7, 8, 9, 10, 11 }, probe.input_ahead(input))
    for i = 4, 13 do assert.equal("v" .. i, probe.input_next(input).value) end
    assert.same({ 14, 15, 16, 17, 18, 19, 20, 21 }, probe.input_ahead(input))
    assert.same({ "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21" }, (probe.input_records(input, 99)))
    assert.same({}, (probe.input_records(input, 99)))
    assert.equal("v22", probe.input_next(input).value)
  end)

  it("gives records that were read ahead where they come next, and only there", function()
    make(1, { segment = 10000, ports = { 4 } })
    local function look_ahead() while probe.input_ahead(input)[1] do end end
    for i = 1, 4 do probe.output_emit(outputs[0], "v" .. i, i) end
    probe.output_watermark(outputs[0], 5)
    for i = 5, 8 do probe.output_emit(outputs[0], "v" .. i, i) end
    probe.output_flush(outputs[0])
    look_ahead()
    assert.same({}, (probe.input_records(input, 9))) -- no buffer is being read yet
    assert.equal("v1", probe.input_next(input).value)
    assert.same({}, (probe.input_records(input, 9))) -- nobody has looked
    look_ahead()
    assert.same({ { "v2" }, 4 }, { probe.input_records(input, 1) })
    assert.same({ {}, 4 }, { probe.input_records(input, 0) }) -- those that are not taken stay
    assert.same({ { "v3", "v4" }, 4 }, { probe.input_records(input, 9) })
    assert.same({}, (probe.input_records(input, 9))) -- a watermark comes next
    assert.equal(5, probe.input_next(input).watermark)
    assert.same({ { "v5", "v6" }, 4 }, { probe.input_records(input, 2) })
    assert.equal("v7", probe.input_next(input).value) -- either way gives the next one
    probe.input_receiver_gone(input)
    assert.same({}, (probe.input_records(input, 9)))
  end)

  -- Sends "a@0" records, each in a buffer of its own, "B1@0", "W5@0", "I@0", "A@0", "E@0", "X@0"
  -- (close), and reads all there is after each, as if the elements came one by one.
  local function run(script)
    local out = {}
    for word, c in script:gmatch "(%S+)@(%d+)" do
      local o, kind, n = outputs[tonumber(c)], word:match "^(%u)(%d*)$"
      n = tonumber(n)
      if kind == "B" then probe.output_barrier(o, n)
      elseif kind == "W" then probe.output_watermark(o, n)
      elseif kind == "I" then probe.output_status(o, true)
      elseif kind == "A" then probe.output_status(o, false)
      elseif kind == "E" then probe.output_end(o)
      elseif kind == "X" then probe.output_close(o)
      else probe.output_emit(o, word) end
      probe.output_flush(o)
      local got = read()
      if got ~= "" then out[#out + 1] = got end
    end
    return table.concat(out, " ")
  end

  it("gives records with port, channel, timestamp and key group", function()
    make(2, { ports = { 0, 1 } })
    probe.output_emit(outputs[1], "v", 12, 34)
    probe.output_flush(outputs[1])
    assert.same({ kind = "record", value = "v", port = 1, channel = 1, key_group = 12,
      timestamp = 34 }, probe.input_next(input))
    assert.same({ kind = "none" }, probe.input_next(input))
  end)

  it("reads a buffer at a time, round robin", function()
    make(3, { segment = 16, exclusive = 9 }) -- two records of two bytes a buffer
    for c = 0, 2 do
      for i = 1, (c == 1 and 2 or 5) do
        probe.output_emit(outputs[c], ("abc"):sub(c + 1, c + 1) .. i)
      end
      probe.output_flush(outputs[c])
    end
    assert.equal("a1 a2 b1 b2 c1 c2 a3 a4 c3 c4 a5 c5", read())
  end)

  it("reads records that are larger than a segment", function()
    make(1, { segment = 16 })
    local large = ("x"):rep(500)
    probe.output_emit(outputs[0], "a")
    probe.output_emit(outputs[0], large)
    probe.output_emit(outputs[0], "b")
    probe.output_flush(outputs[0])
    assert.equal("a " .. large .. " b", read())
  end)

  it("looks at a barrier only when the buffer before it is read", function()
    make(1)
    probe.output_emit(outputs[0], "a")
    probe.output_emit(outputs[0], "b")
    probe.output_barrier(outputs[0], 1, 99)
    probe.output_emit(outputs[0], "c")
    probe.output_flush(outputs[0])
    assert.equal("a", probe.input_next(input).value)
    assert.same({ MAX + 1, 0 }, { probe.input_state(input) })
    assert.equal("b", probe.input_next(input).value)
    assert.same({ kind = "snapshot", id = 1, timestamp = 99, alignment_bytes = 0, first = 1,
      first_timestamp = 99 }, probe.input_next(input))
    assert.equal("c", probe.input_next(input).value)
  end)

  it("106. single channel", function()
    make(1)
    assert.equal("d d d S1!1 d d d d S2!2 S3!3 d d S4!4 S5!5 S6!6 d Wmax END",
      run "d@0 d@0 d@0 B1@0 d@0 d@0 d@0 d@0 B2@0 B3@0 d@0 d@0 B4@0 B5@0 B6@0 d@0 E@0")
  end)

  it("107. three channels: a snapshot includes what came before its last barrier", function()
    make(3)
    assert.equal("a none!1 b S1", run "a@0 B1@1 B1@2 b@0 B1@0")
  end)

  it("108. content of a blocked channel waits", function()
    make(2, { exclusive = 9 })
    -- B1@0 is read with a1, so the rest of channel 0 waits until channel 1 brought B1, too.
    assert.equal("a1 none!1 b1 b2 S1 a2 none!2 b3 S2",
      run "a1@0 B1@0 a2@0 b1@1 B2@0 b2@1 B1@1 b3@1 B2@1")
  end)

  it("108. the same where everything is there before the first look", function()
    make(2, { exclusive = 9 })
    for word, c in ("a1@0 B1@0 a2@0 b1@1 B2@0 b2@1 B1@1 b3@1 B2@1"):gmatch "(%S+)@(%d)" do
      local o = outputs[tonumber(c)]
      if word:find "^B" then probe.output_barrier(o, tonumber(word:sub(2)))
      else probe.output_emit(o, word) end
      probe.output_flush(o)
    end
    local before, seen = {}, {}
    for word in read():gmatch "%S+" do
      if word:find "^S" then before[word:match "S%d"] = table.concat(seen, ",") end
      if word:find "^[ab]" then
        seen[#seen + 1] = word:match "^%w+"
        table.sort(seen)
      end
    end
    assert.same({ S1 = "a1,b1,b2", S2 = "a1,a2,b1,b2,b3" }, before)
  end)

  it("109. jump over: the abort comes before what follows, and names the newer one", function()
    make(3)
    -- The end of channel 2 is behind its barrier: it is read when the last close completed 4.
    assert.equal("none!2 -2<3!3 x -3<4!4 y S4 Wmax END",
      run "B2@0 B3@1 x@0 B4@2 y@0 E@2 X@0 X@1")
  end)

  it("121. a close counts as the barrier, and comes with the end of input", function()
    make(2)
    assert.equal("none!1 S1", run "B1@0 X@1")
    assert.equal("S2!2 Wmax END CLOSED", run "B2@0 X@0")
  end)

  it("at least once: what ends behind a barrier that others owe ends after the snapshot", function()
    local how = { at_least_once = true, exclusive = 9 }
    make(2, how)
    -- Channel 0 reads on. But for a restore from 1 its end has not come.
    assert.equal("none!1 x b S1 Wmax END", run "B1@0 x@0 E@0 b@1 E@1 B1@1")
    close()
    make(2, how)
    assert.equal("none!1 S1 Wmax END CLOSED", run "B1@0 E@0 X@0 E@1 X@1")
    close()
    make(2, how)
    assert.equal("none!1 x y none!2 S2 Wmax END", run "B1@0 E@0 x@1 y@1 B2@1 B2@0 E@1")
  end)

  it("at least once: the last watermark waits with the end, others do not", function()
    make(2, { at_least_once = true, exclusive = 9 })
    assert.equal("none!1 W5 W7 S1 Wmax", run(("B1@0 W7@0 WM@0 W5@1 WM@1 B1@1"):gsub("M", MAX)))
  end)

  it("122. bytes processed during alignment", function()
    make(3, { segment = 100 })
    local d = ("x"):rep(94) -- with its head 100 bytes
    local function data(c) probe.output_emit(outputs[c], d) end
    local snapshot
    local function pump()
      repeat
        local e = probe.input_next(input)
        if e.kind == "snapshot" then snapshot = e end
      until e.kind == "none"
    end
    local steps = { 0, 1, 2, "B1@1", 0, 2, "B1@0", 2, "B1@2", 0, 1, 2 }
    for _, step in ipairs(steps) do
      if math.type(step) then data(step)
      else probe.output_barrier(outputs[tonumber(step:sub(4))], 1) end
      pump()
    end
    assert.equal(300, snapshot.alignment_bytes)
  end)

  it("marks the event that follows a first barrier, once", function()
    make(2)
    assert.equal("none!5 d S5 none!6 -6<7!7 S7", run "B5@0 d@1 B5@1 B6@0 B7@1 B7@0")
    assert.equal("", run "B7@0 B6@1")
  end)

  it("gives what the valve lets out, the watermark before the status", function()
    make(2)
    assert.equal("W4 W5 idle active W9 W12", run "W5@0 W4@1 I@1 I@0 A@1 W9@1 W12@0 W12@1")
    assert.same({ 12, 0 }, { probe.input_state(input) })
  end)

  it("tells END once when all have ended, CLOSED once when all have left", function()
    make(2)
    assert.equal("W7 Wmax END none!1 S1 CLOSED", run "W7@0 E@1 E@0 B1@0 B1@1 X@1 X@0")
  end)

  it("takes a close without an end before it as both", function()
    make(2)
    assert.equal("W3 Wmax END CLOSED", run "X@0 W3@1 X@1")
  end)

  it("a snapshot that the last close completes comes between END and CLOSED", function()
    make(2)
    probe.output_close(outputs[0])
    assert.equal("", read())
    probe.input_trigger(input, 4, 44)
    assert.equal("none!4 Wmax END S4 CLOSED", read() .. " " .. run "X@1")
  end)

  it("answers a trigger by mail at once where no channel is open", function()
    make(0)
    assert.is_false(probe.input_ready(input))
    probe.input_trigger(input, 1, 11)
    probe.input_trigger(input, 2, 22)
    probe.input_trigger(input, 2, 22)
    assert.is_true(probe.input_ready(input))
    assert.same({ "snapshot", 1, 11 }, (function()
      local e = probe.input_next(input)
      return { e.kind, e.id, e.timestamp }
    end)())
    assert.equal("S2", read())
    assert.is_false(probe.input_ready(input))
    assert.equal("", read())
  end)

  it("aborts by mail: an alignment, an unknown one, and a snapshot not yet handed out", function()
    make(2)
    assert.equal("none!1", run "B1@0 d@0")
    assert.is_false(probe.input_ready(input)) -- channel 0 is held back
    probe.input_abort(input, 1)
    assert.is_true(probe.input_ready(input))
    assert.equal("-1 d", read())
    probe.input_abort(input, 1)
    assert.equal("", read())
    probe.input_abort(input, 3)
    assert.equal("-3", run "B3@0 B3@1")
    close()

    make(0)
    probe.input_trigger(input, 5)
    probe.input_abort(input, 5)
    assert.equal("-5!5", read())
    probe.input_abort(input, 5)
    assert.equal("", read())
  end)

  it("a damaged buffer is an error that names the channel", function()
    for _, bytes in ipairs {
      "\1", -- no whole head
      "\255\0\0\0\0\0", -- longer than the buffer
      "\2\0\0\0\9\0", -- unknown kind
      "\2\0\0\0\1\0", -- watermark without a timestamp
      "\3\0\0\0\2\0x", -- a status that is neither
      "\2\0\0\0\2\0", -- a status without value
    } do
      make(2, { ports = { 0, 3 } })
      probe.channel_push(channels[2], pool, "\3\0\0\0\0\0v" .. bytes)
      assert.equal("v", probe.input_next(input).value)
      for _ = 1, 2 do -- and stays one
        local e, message, code = probe.input_next(input)
        assert.is_nil(e)
        assert.equal("ECORRUPT", code)
        assert.matches("channel 1 %(port 3%) is damaged " .. #bytes .. " bytes before", message)
      end
      close()
    end
  end)

  it("leaves: what is queued or half read is dropped, senders go on without limit", function()
    make(2, { exclusive = 1 })
    probe.output_emit(outputs[0], "a")
    probe.output_emit(outputs[0], "b")
    probe.output_flush(outputs[0])
    probe.output_emit(outputs[1], "c")
    probe.output_barrier(outputs[1], 1)
    assert.equal("a", probe.input_next(input).value)
    assert.is_false(probe.output_has_room(outputs[1]))
    probe.input_receiver_gone(input)
    assert.equal(0, probe.pool_outstanding(pool))
    assert.is_true(probe.output_has_room(outputs[1]))
    assert.is_true(probe.output_drained(outputs[1]))
    assert.is_false(probe.input_ready(input))
    assert.equal("", run "d@0 B1@0 E@0 X@0")
  end)

  -- The oracle knows only what each sender sent and in which order: a checkpoint is complete if
  -- each sender sent its barrier, or left before any newer one; and its snapshot holds from each
  -- channel exactly the records that were sent before that barrier (or before the close).
  describe("125. random soak", function()
    local function soak(n, events, seed)
      math.randomseed(seed)
      make(n, { segment = 40, exclusive = 2 })
      local sent, left, barriers, newest = {}, {}, {}, {}
      local got, snapshots, aborted, delivered = {}, {}, {}, 0
      for c = 0, n - 1 do sent[c], got[c], barriers[c], newest[c] = 0, 0, {}, 0 end
      local ended, closed = 0, 0

      local function consume()
        local e = assert(probe.input_next(input))
        if e.kind == "record" then
          delivered = delivered + 1
          got[e.channel] = got[e.channel] + 1
          assert(string.unpack("<I4", e.value) == got[e.channel], "lost, doubled or overtaken")
        elseif e.kind == "snapshot" then
          assert(not snapshots[e.id] and not aborted[e.id], "two ends of one checkpoint")
          snapshots[e.id] = {}
          for c = 0, n - 1 do snapshots[e.id][c] = got[c] end
        elseif e.kind == "aborted" then
          assert(not snapshots[e.aborted] and not aborted[e.aborted], "two ends of one checkpoint")
          aborted[e.aborted] = true
        elseif e.kind == "end" then ended = ended + 1
        elseif e.kind == "closed" then closed = closed + 1 end
        return e.kind ~= "none"
      end

      local function leave(c)
        left[c] = true
        if math.random() < 0.5 then probe.output_end(outputs[c]) end
        probe.output_close(outputs[c])
      end

      local id, ids, step = 0, {}, 0
      while step < events do
        step = step + 1
        local c, p = math.random(0, n - 1), math.random()
        if left[c] or p < 0.5 then
          consume()
        elseif p < 0.985 then
          if probe.output_has_room(outputs[c]) then
            sent[c] = sent[c] + 1
            probe.output_emit(outputs[c], string.pack("<I4", sent[c])
              .. ("x"):rep(math.random() < 0.02 and 100 or 0)) -- sometimes larger than a segment
            if math.random() < 0.2 then probe.output_flush(outputs[c]) end
          end
        elseif p < 0.9995 or step < events / 2 then
          -- Senders take the newest barrier, the one before, or skip; sometimes a new one begins.
          if math.random() < 0.3 then
            id = id + 1
            ids[#ids + 1] = id
          end
          local b = math.max(newest[c] + 1, id - math.random(0, 1))
          if b <= id then
            newest[c], barriers[c][b] = b, sent[c]
            probe.output_barrier(outputs[c], b)
          end
        else
          leave(c)
        end
      end
      for c = 0, n - 1 do
        if not left[c] then leave(c) end
      end
      while consume() do end

      assert.same({ 1, 1 }, { ended, closed })
      local total, complete = 0, 0
      for c = 0, n - 1 do
        assert.equal(sent[c], got[c])
        total = total + sent[c]
      end
      assert.equal(total, delivered)
      for _, b in ipairs(ids) do
        local expected, known = {}, false
        for c = 0, n - 1 do
          known = known or barriers[c][b] ~= nil
          if barriers[c][b] then expected[c] = barriers[c][b]
          elseif newest[c] < b then expected[c] = sent[c]
          else expected = nil break end
        end
        if not known then expected = nil end
        if expected then complete = complete + 1 end
        assert.same(expected, snapshots[b], "checkpoint " .. b)
      end
      close()
      return complete, total
    end

    it("over 10^5 events, against a naive oracle", function()
      local seed = os.time()
      print("soak seed " .. seed)
      local complete, total = 0, 0
      for round = 0, 9 do
        local ok, a, b = pcall(soak, round % 8 + 3, 10000, seed + round)
        assert(ok, "seed " .. seed + round .. ": " .. tostring(a))
        complete, total = complete + a, total + b
      end
      assert.is_true(total > 10000)
      assert.is_true(complete > 20)
    end)
  end)
end)
