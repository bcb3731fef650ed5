local probe = require "streamckpt.probe"
local crossing = require "support.crossing"

-- Aligned barriers that may overtake later (`aligned_timeout`), with a clock that specs move. There
-- are no announcements here: the one queue of a channel is seen from both sides, so a barrier that
-- waits is moved by its sender's timer (overtake) or by the receiver that switches (clock).
describe("aligned barrier with a timeout", function()
  local x
  after_each(function()
    if x then assert.equal(0, x:close()) end
    x = nil
  end)

  it("143. no switch in time", function()
    x = crossing.new(2)
    x:barrier(0, 1, 100) x:poll()
    assert.same({ true, false, 100 }, { probe.input_haste(x.input) })
    x:clock(50)
    x:barrier(1, 1, 100) x:poll()
    assert.equal("1", x:told())
    x:clock(101) x:poll()
    assert.equal("1", x:told())
    assert.is_true(x:complete(1))
  end)

  it("144. active timeout", function()
    x = crossing.new(2)
    x:barrier(0, 1, 100) x:poll()
    x:push(0, "held")
    x:poll()
    x:clock(99) x:poll()
    assert.equal("", x:told())
    assert.same({}, x.seen)
    x:clock(100) x:poll()
    assert.equal("1!", x:told())
    assert.same({ "held" }, x.seen) -- channel 0 is read again
    x:push(1, "kept") x:poll()
    x:barrier(1, 1, 100, true)
    assert.is_true(x:complete(1))
    assert.equal("|, kept|", (x:kept(1)))
  end)

  it("145. barriers that wait in queues move in front of the data, which is kept", function()
    x = crossing.new(2)
    x:push(0, "a1") x:push(0, "a2")
    x:barrier(0, 1, 10)
    x:push(0, "a3")
    x:push(1, "b1")
    x:barrier(1, 1, 10)
    assert.same({ 0, 1 }, { probe.cut_state(x.sent[0][1]) })
    x:overtake(0, 1) x:overtake(1, 1) -- the senders' timers, at 20
    assert.same({ 1, 0 }, { probe.cut_state(x.sent[0][1]) })
    x:urgent()
    assert.equal("1!", x:told())
    assert.equal("", x.starts[1])
    assert.is_true(x:complete(1))
    assert.equal("|a1 a2, |b1", (x:kept(1))) -- and not what stands behind the barrier
    x:poll()
    table.sort(x.seen)
    assert.same({ "a1", "a2", "a3", "b1" }, x.seen)
  end)

  it("145. the receiver that switches moves what waits in the other queues", function()
    x = crossing.new(3)
    x:barrier(0, 1, 10) x:poll()
    x:push(1, "b1") x:push(1, "b2")
    x:barrier(1, 1, 10)
    x:push(1, "b3")
    x:push(2, "c1")
    x:consume() x:consume() -- of 1 and 2
    x:clock(10) x:urgent()
    assert.equal("1!", x:told())
    assert.equal("b1 c1", x.starts[1])
    assert.same({ 1, 0 }, { probe.cut_state(x.sent[1][1]) }) -- settled by the receiver
    x:push(2, "c2") x:poll()
    x:barrier(2, 1, 10) -- its sender sees that the receiver has switched, whatever its own clock says
    assert.is_true(x:complete(1))
    assert.equal("|, |b2, c2|", (x:kept(1)))
  end)

  it("146. elapsed before the first barrier", function()
    x = crossing.new(2)
    x:push(0, "a")
    x:barrier(0, 1, 100, true) -- the sender starts at 101
    x:urgent()
    assert.equal("1!", x:told())
    x:barrier(1, 1, 100, true)
    assert.equal("|a, |", (x:kept(1)))
  end)

  -- Each task of a chain needs 59 s for the record in front of the barrier; from 60 s after its start on
  -- the checkpoint may overtake, whoever's timer that is.
  it("147. accumulated over the chain: the time is the checkpoint's, not each task's", function()
    local now, overtook = 0, {}
    for task = 1, 8 do
      local hop = crossing.new(1)
      hop:push(0, "slow")
      hop:barrier(0, 1, 60000, now >= 60000)
      hop:urgent()
      local done = now + 59000
      if not hop.starts[1] and done >= 60000 then
        now = 60000
        hop:overtake(0, 1) -- the sender's timer
        hop:urgent()
      end
      if not hop.starts[1] then
        now = done
        hop:poll()
      end
      overtook[task] = hop.overtakes[1]
      assert.equal(hop.overtakes[1] and "|slow" or "|", (hop:kept(1)))
      assert.equal(0, hop:close())
    end
    assert.same({ false, true, true, true, true, true, true, true }, overtook)
    assert.equal(60000, now)
  end)

  it("148. no timeout after an abort", function()
    x = crossing.new(2)
    x:barrier(0, 1, 100) x:poll()
    x:abort(1)
    x:clock(101) x:poll()
    x:barrier(1, 1, 100) x:poll()
    assert.equal("-1", x:told())
    assert.same({ false, false }, { probe.input_haste(x.input) })
  end)

  it("149. no timeout after the end of the attempt", function()
    x = crossing.new(2)
    x:push(0, "a")
    x:barrier(0, 1, 100)
    probe.input_receiver_gone(x.input)
    x:overtake(0, 1) -- the timer could not be taken back
    x:clock(101)
    x:urgent()
    assert.equal("", x:told())
    assert.is_true(probe.cut_state(x.sent[0][1]) == 1) -- settled, nothing kept
    assert.same({}, probe.cut_take(x.sent[0][1]))
  end)

  it("150. the next one is aligned again", function()
    x = crossing.new(2)
    x:barrier(0, 1, 100) x:poll()
    x:clock(101) x:poll()
    x:barrier(1, 1, 100, true) x:poll()
    x:barrier(0, 2, 300) x:poll()
    x:clock(201)
    x:barrier(1, 2, 300) x:poll()
    assert.equal("1! 2", x:told())
    assert.is_true(x:complete(1))
    assert.is_true(x:complete(2))
  end)

  it("151. a sender has switched already", function()
    x = crossing.new(2)
    x:push(0, "a")
    x:barrier(0, 1, 100) -- waits behind a
    x:push(1, "b")
    x:barrier(1, 1, 100, true) -- at the head
    x:urgent()
    assert.equal("1!", x:told())
    assert.is_true(x:complete(1)) -- the start has moved the other one
    x:poll()
    assert.equal("1!", x:told())
    assert.equal("|a, |b", (x:kept(1)))
  end)

  it("152. all channels are released", function()
    x = crossing.new(3)
    x:barrier(0, 1, 100) x:barrier(1, 1, 100) x:poll()
    x:push(0, "a") x:push(1, "b") x:poll()
    assert.same({}, x.seen)
    x:clock(101) x:poll()
    assert.equal("1!", x:told())
    assert.same({ "a", "b" }, x.seen)
    assert.equal("", x.starts[1])
  end)

  it("153. output queue switch: nothing is acknowledged before it is known", function()
    x = crossing.new(1)
    x:push(0, "a") x:push(0, "b")
    x:barrier(0, 1, 100)
    x:push(0, "c")
    x:consume()
    assert.same({ 0, 1 }, { probe.cut_state(x.sent[0][1]) })
    x:overtake(0, 1)
    assert.same({ 1, 0 }, { probe.cut_state(x.sent[0][1]) })
    x:urgent()
    assert.equal("a", x.starts[1])
    assert.equal("|b", (x:kept(1)))
    x:overtake(0, 1) -- once
    x:poll()
    assert.equal("1!", x:told())
  end)

  it("153. taken in its turn nothing is kept", function()
    x = crossing.new(1)
    x:push(0, "a")
    x:barrier(0, 1, 100)
    x:poll()
    assert.equal("1", x:told())
    assert.is_true(x:complete(1))
    assert.equal("|", (x:kept(1)))
  end)

  it("154. an edge that cannot be captured is not overtaken", function()
    x = crossing.new(2, { rigid = { 0 } })
    x:push(0, "a") x:push(1, "b")
    x:barrier(0, 1, 100) x:barrier(1, 1, 100)
    assert.same({ 1, 0 }, { probe.cut_state(x.sent[0][1]) }) -- nobody waits for it
    x:overtake(0, 1) x:overtake(1, 1)
    x:urgent()
    assert.equal("", x:told()) -- 0 owes its barrier, which stands behind a
    x:poll()
    assert.equal("1!", x:told())
    assert.equal("a", x.starts[1])
    assert.equal("|, |b", (x:kept(1)))
  end)

  it("155. alternate types", function()
    local N = 123
    x = crossing.new(N)
    local expected = {}
    for id = 1, N do
      for c = 0, N - 1 do x:barrier(c, id, (id + c) % 2 == 0 and "aligned" or 1 << 40) end
      x:poll()
      expected[#expected + 1] = tostring(id)
    end
    assert.equal(table.concat(expected, " "), x:told())
  end)
end)
