local probe = require "streamckpt.probe"
local crossing = require "support.crossing"

-- Unaligned barriers over real channels and a real input. What a scenario calls the capture is both
-- sides' parts together: here the overtaken buffers of the queue are the sender's.
describe("overtaking barrier", function()
  local x
  after_each(function()
    if x then assert.equal(0, x:close()) end
    x = nil
  end)

  -- Each step is read at once: "d0:a" record, "H1@0" barrier that overtakes, "B1@0" aligned,
  -- "E0" the sender leaves, "A1" abort. Records without a name are called by their step's number.
  local function polled(script, names)
    local n = 0
    for step in script:gmatch "%S+" do
      n = n + 1
      local kind, a, b = step:match "^(%u?%l*)(%d+)@?(%d*)"
      a, b = tonumber(a), tonumber(b)
      if kind == "d" then x:push(a, step:match ":(.*)" or tostring(names and n - 1 or n))
      elseif kind == "H" then x:barrier(b, a, "now")
      elseif kind == "B" then x:barrier(b, a, "aligned")
      elseif kind == "E" then x:leave(a)
      elseif kind == "A" then x:abort(a) end
      x:poll()
    end
  end

  it("126. capture definition", function()
    x = crossing.new(2)
    x:push(0, "a1") x:push(0, "a2") x:push(1, "b1")
    x:consume()
    assert.same({ "a1" }, x.seen)
    x:barrier(0, 1, "now") x:urgent()
    assert.equal("a1", x.starts[1])
    x:push(0, "a3") x:push(1, "b2")
    x:consume()
    assert.same({ "a1", "b1" }, x.seen)
    assert.is_false(x:complete(1))
    x:barrier(1, 1, "now")
    assert.is_true(x:complete(1)) -- at once: nobody has read anything
    x:push(1, "b3")
    x:poll()
    assert.equal("|a2, b1|b2", (x:kept(1)))
    assert.equal("1!", x:told())
  end)

  it("127. barrier overtakes on both sides", function()
    x = crossing.new(2)
    x:push(0, "a1") x:push(1, "b1") x:push(1, "b2")
    x:barrier(1, 1, "now") x:urgent()
    assert.equal("", x.starts[1])
    x:push(0, "a2")
    x:barrier(0, 1, "now")
    assert.is_true(x:complete(1))
    assert.equal("|a1 a2, |b1 b2", (x:kept(1)))
    x:poll()
    assert.equal("1!", x:told())
  end)

  it("127. what is half filled is overtaken, too", function()
    x = crossing.new(1)
    x:push(0, "a1")
    x:fill(0, "a2")
    x:barrier(0, 1, "now")
    x:fill(0, "a3")
    x:urgent()
    assert.equal("|a1 a2", (x:kept(1)))
    assert.equal("", x.starts[1])
  end)

  it("what is half read is the receiver's, and is processed after the start all the same", function()
    x = crossing.new(2)
    for i = 1, 4 do x:fill(0, "a" .. i) end
    probe.output_flush(x.outputs[0])
    x:push(0, "a5")
    x:consume() x:consume()
    x:barrier(0, 1, "now") x:urgent()
    assert.equal("a1 a2", x.starts[1])
    x:barrier(1, 1, "now")
    assert.equal("a3 a4|a5, |", (x:kept(1)))
    x:poll()
    assert.same({ "a1", "a2", "a3", "a4", "a5" }, x.seen)
  end)

  it("128. polled-at-once capture 1", function()
    x = crossing.new(3)
    polled "d0 d2 d0 H1@1 H1@2 d2 d1 d0:last H1@0"
    assert.is_true(x:complete(1))
    assert.equal("last|, |, |", (x:kept(1)))
  end)

  it("129. polled-at-once capture 2", function()
    x = crossing.new(3)
    polled("d0 d2 d0 H5@1 d2 d0 d2 d1 H5@2 d1 d0 d2 d1 H5@0", true)
    assert.is_true(x:complete(5))
    local _, all = x:kept(5)
    table.sort(all, function(a, b) return tonumber(a) < tonumber(b) end)
    assert.same({ "4", "5", "6", "10" }, all)
  end)

  it("130. supersede while capturing", function()
    x = crossing.new(3)
    polled "d2:c1 H1@0 d1:b1 H1@1 d2:c2 H2@0 d2:c3 H1@2 H2@1 H2@2"
    assert.equal("1! -1<2 2!", x:told())
    -- Read at once, c1 was processed before both starts, b1 and c2 before the second.
    assert.equal("c1 b1 c2", x.starts[2])
    assert.equal("|, |, c3|", (x:kept(2)))
    assert.is_false(x:complete(1))
  end)

  it("130. the same where nothing is consumed meanwhile", function()
    x = crossing.new(3)
    x:push(2, "c1")
    x:barrier(0, 1, "now") x:urgent()
    x:push(1, "b1")
    x:barrier(1, 1, "now") x:urgent()
    x:push(2, "c2")
    x:barrier(0, 2, "now") x:urgent()
    assert.equal("1! -1<2 2!", x:told())
    assert.equal("", x.starts[2])
    x:push(2, "c3")
    x:barrier(2, 1, "now") x:urgent() -- late, and of nobody any more
    x:barrier(1, 2, "now") x:urgent()
    x:barrier(2, 2, "now") x:urgent()
    assert.equal("1! -1<2 2!", x:told())
    assert.is_true(x:complete(2))
    assert.equal("|, |b1, |c1 c2 c3", (x:kept(2)))
  end)

  it("131. channel ends while capturing", function()
    x = crossing.new(2)
    x:push(0, "a1")
    x:barrier(0, 1, "now") x:urgent()
    x:push(1, "b1")
    x:leave(1)
    assert.is_false(x:complete(1)) -- what stands in front of the closing element is still to come
    x:poll()
    assert.is_true(x:complete(1))
    assert.equal("|a1, b1|", (x:kept(1)))
  end)

  it("131. a closing element that is queued already needs no capture", function()
    x = crossing.new(2)
    x:push(1, "b1") x:push(1, "b2")
    x:leave(1)
    x:barrier(0, 1, "now") x:urgent()
    assert.is_true(x:complete(1))
    assert.equal("|, b1 b2|", (x:kept(1)))
  end)

  it("132. end before any barrier", function()
    x = crossing.new(3)
    polled "E0 H3@1 d1 d2:kept E1 H3@2 d2 H4@2 E2"
    assert.equal("3! 4!", x:told())
    assert.equal("|, |, kept|", (x:kept(3)))
    assert.equal("|, |, |", (x:kept(4)))
  end)

  it("133. closed channels, then unaligned", function()
    x = crossing.new(4)
    polled "E2 E1 d0 d0 d3 H2@3 H2@0 d3 d0 H3@3 d3 d0:last H3@0"
    assert.equal("2! 3!", x:told())
    assert.equal("|, |, |, |", (x:kept(2)))
    assert.equal("last|, |, |, |", (x:kept(3)))
  end)

  it("134. cancel while capturing", function()
    x = crossing.new(3)
    polled "H2@0 H2@2 d0 d2 d1 A2"
    assert.equal("2! -2", x:told())
    assert.equal(0, probe.pool_outstanding(x.pool)) -- the capture of channel 1 was given back
    polled "d1:x H3@1 d0:y H3@0 H3@2"
    assert.equal("2! -2 3!", x:told())
    assert.equal("y|, |, |", (x:kept(3)))
  end)

  it("135. cancel before the first barrier", function()
    x = crossing.new(3)
    polled "A4 H4@2 d0 H4@0 d2 H4@1"
    assert.equal("-4", x:told())
    assert.equal(0, probe.pool_outstanding(x.pool))
  end)

  it("136. abort happens before start: what comes is given back, and nobody waits", function()
    local pool = probe.pool_new(100)
    local ch = probe.channel_new(2)
    local cut = probe.cut_new(1)
    assert.is_true(probe.cut_drop(cut))
    probe.channel_push(ch, pool, "abc")
    probe.channel_barrier(ch, 1, 1, true, cut)
    probe.cut_release(cut)
    assert.same({ 0, 0 }, { probe.cut_state(cut) })
    assert.equal("barrier", probe.channel_take(ch))
    assert.equal("data", probe.channel_take(ch))
    assert.equal(0, probe.pool_outstanding(pool))
    probe.cut_destroy(cut)
    probe.channel_destroy(ch)
    probe.pool_destroy(pool)
  end)

  it("137. two gates", function()
    x = crossing.new(4, { ports = { 0, 0, 1, 1 } })
    for c = 0, 3 do x:push(c, "r" .. c) end
    x:barrier(1, 1, "now") x:urgent()
    for _, c in ipairs { 0, 2, 3 } do x:barrier(c, 1, "now") end
    assert.is_true(x:complete(1))
    local seen = {}
    for c = 0, 3 do
      for _, part in ipairs(probe.cut_take(x.sent[c][1])) do
        seen[#seen + 1] = part.edge .. "/" .. part.sender
      end
    end
    table.sort(seen)
    assert.same({ "0/0", "0/1", "1/2", "1/3" }, seen)
  end)

  it("139. captured buffers are returned to the pool, whatever ends the checkpoint", function()
    for round = 1, 1000 do
      x = crossing.new(2)
      x:push(0, "a1") x:push(0, "a2") x:push(1, "b1")
      x:consume()
      x:barrier(0, 1, "now") x:urgent()
      x:push(1, "b2")
      x:consume()
      local way = round % 5
      if way == 0 then -- complete
        x:barrier(1, 1, "now")
        assert.is_true(x:complete(1))
      elseif way == 1 then -- aborted before anything is written
        x:abort(1)
      elseif way == 2 then -- superseded
        x:barrier(0, 2, "now") x:urgent()
        assert.equal("1! -1<2 2!", x:told())
      elseif way == 3 then -- the receiver leaves
        x:drop(1)
        probe.input_receiver_gone(x.input)
      else -- the attempt ends
        x:barrier(1, 1, 5)
      end
      assert.equal(0, x:close())
      x = nil
    end
  end)

  -- A record never spans buffers here: a large one has a buffer of its own, and is kept whole.
  it("140. record larger than a buffer", function()
    x = crossing.new(1, { segment = 32 })
    local large = ("x"):rep(100)
    x:push(0, "a") x:push(0, large) x:push(0, "b")
    x:consume()
    x:barrier(0, 1, "now") x:urgent()
    local _, all = x:kept(1)
    assert.same({ large, "b" }, all)
    assert.equal("a", x.starts[1])
  end)

  it("141. edges that cannot be captured align, beside others that are overtaken", function()
    x = crossing.new(4, { rigid = { 0, 1 } })
    for c = 0, 3 do x:push(c, "r" .. c) end
    x:barrier(0, 1, "now") x:barrier(2, 1, "now")
    x:urgent()
    assert.equal("", x:told()) -- 2 stood at the head, but 0 and 1 owe theirs
    x:push(2, "held") x:push(0, "behind")
    x:poll()
    assert.equal("", x:told())
    -- 0 was read up to its barrier; 2 is held back with what it had; 3 is read and not kept.
    assert.same({ "r0", "r1", "r3" }, (function() table.sort(x.seen) return x.seen end)())
    x:push(3, "kept")
    x:push(1, "before")
    x:barrier(1, 1, "now")
    x:poll()
    assert.equal("1!", x:told())
    x:barrier(3, 1, "now")
    x:poll()
    assert.is_true(x:complete(1))
    local _, all = x:kept(1)
    table.sort(all)
    local processed = {}
    for r in x.starts[1]:gmatch "%S+" do processed[r] = true end
    assert.is_true(processed.r0 and processed.r1 and processed.before)
    assert.is_nil(processed.behind)
    -- Of the others each record is on one side of the cut, and of `kept` only one.
    assert.same(processed.kept and { "r2" } or { "kept", "r2" }, all)
  end)

  it("a channel that is held back is not read on in the middle of a buffer", function()
    x = crossing.new(2, { rigid = { 0 } })
    x:fill(1, "a1") x:fill(1, "a2")
    probe.output_flush(x.outputs[1])
    x:consume()
    x:barrier(1, 1, "now")
    x:poll()
    assert.same({ "a1" }, x.seen) -- a2 waits
    x:barrier(0, 1, "now")
    x:poll()
    assert.equal("a1", x.starts[1])
    assert.same({ "a1", "a2" }, x.seen)
    assert.equal("|, a2|", (x:kept(1)))
  end)

  it("a start keeps what the valve knew in front of it", function()
    x = crossing.new(2)
    probe.output_watermark(x.outputs[0], 7)
    probe.output_status(x.outputs[1], true)
    probe.output_flush(x.outputs[0]) probe.output_flush(x.outputs[1])
    x:poll()
    probe.output_watermark(x.outputs[0], 9)
    x:barrier(0, 1, "now") x:urgent()
    x:barrier(1, 1, "now") x:urgent()
    local parts = {}
    for _, p in ipairs(probe.cut_take(x.cuts[1])) do
      assert.equal("receiver", p.side)
      parts[p.sender] = p
    end
    assert.equal(7, parts[0].watermark) -- 9 lies in what was overtaken
    assert.is_false(parts[0].idle)
    assert.is_true(parts[1].idle)
  end)

  it("the word is out from the barrier's way into a queue until the start", function()
    x = crossing.new(2, { rigid = { 0, 1 } })
    local function word() return (probe.input_haste(x.input)) end
    x:barrier(0, 1, "aligned")
    assert.is_false(word())
    x:push(0, "a")
    x:barrier(0, 2, "now")
    assert.is_true(word())
    x:barrier(1, 1, "aligned") x:poll()
    assert.is_true(word())
    x:barrier(1, 2, "now") x:poll()
    assert.is_false(word())
    assert.equal("1 2!", x:told())
    probe.input_word(x.input, 3) -- a trigger in the mail
    assert.is_true(word())
    x:abort(3)
    assert.is_false(word())
  end)

  it("spared, only channels that cannot be captured are read", function()
    x = crossing.new(2, { rigid = { 1 } })
    x:fill(0, "a1") x:fill(0, "a2")
    probe.output_flush(x.outputs[0])
    x:consume()
    x:push(1, "b1")
    probe.input_spare(x.input, true)
    x:poll()
    assert.same({ "a1", "b1" }, x.seen)
    probe.input_spare(x.input, false)
    x:poll()
    assert.same({ "a1", "b1", "a2" }, x.seen)
  end)

  it("a receiver that has gone settles what comes and what had come", function()
    x = crossing.new(1)
    x:push(0, "a")
    x:barrier(0, 1, 100)
    assert.same({ 0, 1 }, { probe.cut_state(x.sent[0][1]) })
    probe.input_receiver_gone(x.input)
    assert.same({ 1, 0 }, { probe.cut_state(x.sent[0][1]) })
    x:push(0, "b")
    x:barrier(0, 2, 100)
    assert.same({ 1, 0 }, { probe.cut_state(x.sent[0][2]) })
    x:barrier(0, 3, "now")
    assert.same({ 1, 0 }, { probe.cut_state(x.sent[0][3]) })
    assert.equal(0, probe.pool_outstanding(x.pool))
  end)
end)
