local probe = require "streamckpt.probe"

-- Drives one aligner by a script: "B2@1" barrier in its turn, "L2@1" one that may overtake later,
-- "N2@1" one that overtakes but waits in its turn (of a rigid channel), "H2@1" one at the head,
-- "C2@1" cancellation (the channel does not matter), "A2" abort by mail, "E1" close, "T2" trigger by
-- mail ("TL2", "TN2": of one that may overtake), "O2" its time has come, "R1" and "R0" recovered
-- data is left and is not, "d1" data (its channel must not be held), "k1" data that is captured.
-- A step may be followed by "[...]": the channels that must be held then, and "{...}": captured.
-- Gives the log of starts and aborts: "1" start of 1, "1!" an overtaking one, "-2" abort of 2,
-- "-2<3" abort of 2 because of 3.
local function run(channels, script, options)
  options = options or {}
  local aligner = probe.barrier_new(channels, options.at_least_once, options.rigid)
  local log = {}
  local function is(c, which)
    local held, captured = probe.barrier_channel(aligner, c)
    if which == "held" then return held end
    return captured
  end
  local function channels_that_are(which)
    local found = {}
    for c = 0, channels - 1 do
      if is(c, which) then found[#found + 1] = tostring(c) end
    end
    return table.concat(found, ",")
  end
  for step in script:gmatch "%S+" do
    local kind, a, b = step:match "^(%u?%a)(%d+)@?(%d*)"
    a, b = tonumber(a), tonumber(b)
    local what = ""
    if kind == "B" then what = probe.barrier_barrier(aligner, b, a)
    elseif kind == "L" then what = probe.barrier_barrier(aligner, b, a, "later")
    elseif kind == "N" or kind == "H" then what = probe.barrier_barrier(aligner, b, a, "now")
    elseif kind == "C" then what = probe.barrier_cancel(aligner, a)
    elseif kind == "A" then what = probe.barrier_abort(aligner, a)
    elseif kind == "E" then what = probe.barrier_close(aligner, a)
    elseif kind == "T" then what = probe.barrier_trigger(aligner, a)
    elseif kind == "TL" then what = probe.barrier_trigger(aligner, a, "later")
    elseif kind == "TN" then what = probe.barrier_trigger(aligner, a, "now")
    elseif kind == "O" then what = probe.barrier_overtake(aligner, a)
    elseif kind == "R" then what = probe.barrier_recovering(aligner, a == 1)
    elseif kind == "d" or kind == "k" then
      assert.is_false(is(a, "held"), step)
      assert.equal(kind == "k", is(a, "captured"), step)
    else error("unknown step " .. step) end
    if what ~= "" then log[#log + 1] = what end
    local held, captured = step:match "%[(.*)%]", step:match "{(.*)}"
    if held then assert.equal(held, channels_that_are "held", step) end
    if captured then assert.equal(captured, channels_that_are "captured", step) end
  end
  local pending, missing = probe.barrier_state(aligner)
  local held = channels_that_are "held"
  probe.barrier_destroy(aligner)
  return table.concat(log, " "), held, pending, missing
end

describe("barrier, aligned", function()
  it("106. single channel", function()
    local log, held = run(1,
      "d0 d0 d0 B1@0[] d0 d0 d0 d0 B2@0[] B3@0[] d0 d0 B4@0[] B5@0[] B6@0[] d0 E0")
    assert.equal("1 2 3 4 5 6", log)
    assert.equal("", held)
  end)

  it("107. three channels", function()
    assert.equal("1 2 3 4", (run(3, [[
      d0 d2 d0 B1@1[1] B1@2[1,2] d0 B1@0[]
      d0 d0 d1 d1 d2 B2@0[0] B2@1[0,1] B2@2[]
      d2 d2 B3@2[2] d0 d0 B3@0[0,2] B3@1[]
      B4@1 B4@2 B4@0[] d0 E0[] E1[] E2[] ]])))
  end)

  -- "Checkpoints after finish" cannot be turned off here: a close always counts as the barrier, so
  -- E0 does not abort 4 but leaves it waiting for channel 2 only.
  it("109. jump over", function()
    assert.equal("1 -2<3 -3<4 4", (run(3, [[
      B1@0 B1@1 B1@2[]
      B2@1[1] d2 B2@0[0,1] d2 B3@2[2] d1 d0 B3@0[0,2] B4@1[1] d2 d0 E0[1] d2 B4@2[] ]])))
  end)

  it("110. chain of jumps", function()
    assert.equal("-1<2 -2<3 3", (run(3, "B1@0[0] B2@1[1] B3@2[2] B3@1[1,2] B3@0[]")))
  end)

  it("111. old barrier is ignored", function()
    assert.equal("5", (run(2, "B5@0[0] B4@1[0] d1 B5@1[]")))
  end)

  it("112. duplicated barrier on one channel", function()
    assert.equal("1", (run(2, "B1@0[0] B1@0[0] B1@1[]")))
  end)

  it("113. cancel during alignment", function()
    assert.equal("-2 3", (run(3, "B2@0 B2@2[0,2] d1 C2@1[] d2 d1 B3@1 B3@2[1,2] B3@0[]")))
  end)

  it("114. cancel first, barriers after", function()
    assert.equal("-4 -6", (run(3,
      "C4@1[] B4@2[] d2 B4@0[] C6@1[] C6@2[] B6@0[]")))
  end)

  it("115. cancel of an older one", function()
    assert.equal("-3<5 5", (run(3, "B3@1 B3@0[0,1] d2 B5@2[2] C3@0[2] B5@0[0,2] B5@1[]")))
  end)

  it("116. late barrier of a cancelled one", function()
    assert.equal("-1 2", (run(3,
      "B1@1[1] d2 d0 C1@0[] d1 B2@1[1] d2 d0 B1@2[1] d0 d2 B2@0[0,1] B2@2[]")))
  end)

  it("117. cancel markers out of order", function()
    local log, held, pending = run(2, "B1@0[0] C3@1[] C2@0[] C3@0[] d0")
    assert.equal("-3", log)
    assert.equal("", held)
    assert.equal(0, pending)
  end)

  it("118. cancel newer than anything seen", function()
    assert.equal("-2 3", (run(2, "C2@0[] B1@1[] B2@1[] B3@0[0] B3@1[]")))
  end)

  it("119. single channel with cancels", function()
    assert.equal("1 2 -4 5 -6", (run(1, "d0 B1@0 d0 B2@0 d0 C4@0 B5@0 d0 C6@0 d0")))
  end)

  it("120. start with closed channels", function()
    assert.equal("2 3 4", (run(4,
      "E2 E1 d0 d0 d3 B2@3[3] B2@0[] B3@0[0] B3@3[] d0 d3 E0[] d3 B4@3[] d3 E3")))
  end)

  -- The "off" half of the scenario does not exist here: the close always counts as the barrier.
  it("121. channel ends in the middle of alignment", function()
    local log, held, pending, missing = run(2, "B1@0[0] E1[]")
    assert.equal("1", log)
    assert.equal("", held)
    assert.equal(0, pending)
    assert.equal(0, missing)
  end)

  it("a trigger by mail waits for the channels that are open", function()
    assert.equal("1", (run(0, "T1")))
    assert.equal("1 2", (run(2, "E0 E1 T1 T1 T2")))
    assert.equal("1", (run(2, "T1 d0 E0 d1 B1@1[]")))
    assert.equal("1", (run(2, "B1@0[0] T1[0] E1[]")))
    assert.equal("-3", (run(1, "C3@0 T3 T2")))
    -- It says nothing of an older one, whose barriers may still come, or be stood for by a close.
    assert.equal("1 2", (run(2, "B1@0[0] T2[0] d1 E1[]  B2@0")))
    assert.equal("1 2", (run(2, "T1 T2 d0 E0 d1 E1[]")))
  end)

  it("an abort by mail ends one checkpoint and no other", function()
    assert.equal("-2 1", (run(2, "B1@0[0] A2[0] d1 B1@1[]")))
    assert.equal("-1", (run(2, "B1@0[0] A1[] d0 d1 B1@1[]")))
    assert.equal("-1 2", (run(2, "A1 B1@0[] A1 B2@0[0] B1@1[0] B2@1[]")))
    assert.equal("-2 3", (run(1, "A2 B2@0 B3@0 A3 A2")))
    assert.equal("-1 2", (run(2, "E0 T1 T2 A1 E1")))
  end)

  it("remembers so many aborted ones that none comes back", function()
    local script = {}
    for id = 1, 200 do script[#script + 1] = "A" .. id end
    for id = 1, 200 do script[#script + 1] = "B" .. id .. "@0[]" end
    local log, _, pending = run(2, table.concat(script, " ") .. " B201@0[0] B201@1[]")
    assert.equal("-199 -200 201", log:sub(-13))
    assert.equal(0, pending)
  end)

  it("tells what is pending and missing", function()
    local log, held, pending, missing = run(3, "B7@0 E1")
    assert.equal("", log)
    assert.equal("0", held)
    assert.equal(7, pending)
    assert.equal(1, missing)
  end)

  it("nonsense is ignored", function()
    assert.equal("2", (run(2, "E0 B1@0[] E0[] B0@1[] T0 C0@0 B2@1[]")))
    local log, held, pending = run(2, "B1@0[0] E0[]") -- a close cannot be read from a held channel
    assert.same({ "", "", 1 }, { log, held, pending })
  end)
end)

-- What is read and kept, on real channels, stands in overtake_spec and timeout_spec; here are the
-- tables alone.
describe("barrier, overtaking", function()
  it("128. starts at the first barrier, and captures what is open", function()
    assert.equal("1!", (run(3,
      "d0 d2 d0 H1@1[]{0,2} k0 H1@2[]{0} d2 d1 k0 H1@0[]{} d0")))
  end)

  it("130. supersede while capturing", function()
    assert.equal("1! -1<2 2!", (run(3,
      "d2 H1@0{1,2} k1 H1@1{2} k2 H2@0{1,2} k2 H1@2{1,2} H2@1{2} H2@2{}")))
  end)

  it("131-133. a close ends a capture, and one before counts as every barrier", function()
    assert.equal("1!", (run(2, "d0 H1@0{1} k1 E1{}")))
    assert.equal("3! 4!", (run(3, "E0 H3@1{2} d1 k2 E1{2} H3@2{} d2 H4@2{} E2")))
    assert.equal("2! 3!", (run(4, "E2 E1 d0 d3 H2@3{0} H2@0{} H3@3{0} d3 k0 H3@0{}")))
  end)

  it("134. cancel while capturing", function()
    assert.equal("2! -2 3!", (run(3, "H2@0 H2@2{1} d0 d2 C2@1{} H3@0{1,2} H3@1 H3@2{}")))
    assert.equal("2! -2 3!", (run(3, "H2@0 H2@2{1} d0 d2 A2{} H2@1{} H3@0{1,2} H3@1 H3@2{}")))
  end)

  it("135. cancel before the first barrier", function()
    assert.equal("-4", (run(3, "C4@1 H4@2{} d0 H4@0{}")))
    assert.equal("-4", (run(3, "A4 H4@2{} d0 H4@0{}")))
  end)

  it("141. waits for the rigid channels, and holds back the others that brought theirs", function()
    local rigid = { rigid = { 0, 1 } }
    assert.equal("1!", (run(4, "H1@2[2]{} d3 d0 N1@0[0,2]{} d1 d3 N1@1[]{3} d2 k3 H1@3{}", rigid)))
    assert.equal("1!", (run(4, "N1@0[0] E1[]{2,3} k2 k3 H1@2{3} H1@3{}", rigid)))
    assert.equal("-1 2!", (run(4, "H1@2[2] A1[] N2@0[0] N2@1[]{2,3}", rigid)))
  end)

  it("143-145. is aligned until its time comes, which starts it at once", function()
    assert.equal("1", (run(2, "L1@0[0] L1@1[] O1 d0 d1")))
    assert.equal("1!", (run(2, "L1@0[0] O1[]{1} d0 k1 H1@1{}")))
    assert.equal("", (run(2, "O1 L2@0[0] O1[0] O3[0]"))) -- that of another one
    assert.equal("1!", (run(2, "B1@0[0] O1[0] L1@0 H1@1[]"))) -- never, where the barrier says so
  end)

  it("148. no timeout after an abort", function()
    assert.equal("-1", (run(2, "L1@0[0] A1[] O1{} L1@1[]{}")))
  end)

  it("151. a sender has switched already", function()
    assert.equal("1!", (run(3, "L1@0[0] H1@1[]{2} L1@2{}")))
  end)

  it("154. rigid channels are waited for after the time has come, too", function()
    assert.equal("1!", (run(3, "L1@1[1] O1[1]{} d2 d0 L1@0[]{2} k2 H1@2{}", { rigid = { 0 } })))
  end)

  it("an aligned one may follow one that is being captured", function()
    assert.equal("1! 2", (run(2, "H1@0{1} B2@0[0]{1} k1 H1@1[0]{} d1 B2@1[]")))
    -- unless the older one will never be: its barrier was passed by
    assert.equal("1! -1<2 2", (run(2, "H1@0{1} B2@0[0]{1} B2@1[]{}")))
  end)

  it("a trigger by mail starts it at once, with captures where a close is still to come", function()
    assert.equal("1!", (run(2, "TN1{0,1} k0 E0{1} k1 E1{}")))
    assert.equal("1!", (run(2, "TL1 d0 O1{0,1} E0 E1{}")))
    assert.equal("1!", (run(2, "TN1{} d1 E0{1} k1 E1{}", { rigid = { 0 } })))
  end)

  it("recovered data holds back an aligned start, and no other", function()
    assert.equal("1", (run(2, "R1 B1@0[0] B1@1[0,1] R0[]")))
    assert.equal("1!", (run(2, "R1 H1@0[]{1} H1@1{}")))
    assert.equal("1!", (run(2, "R1 L1@0 L1@1[0,1] O1[]{}")))
    assert.equal("1", (run(1, "R1 E0 T1 R0")))
  end)
end)

describe("barrier, at least once", function()
  local count = { at_least_once = true }

  it("123. never blocks, and an early later barrier does not drop a pending one", function()
    assert.equal("2 3 4 5 7 8 9 10", (run(3, [[
      B2@1[] B2@0[] B2@2 d0 d1 d2 B3@1 B3@2 d0 B4@2 B4@1[] d1 d2 B3@0 d0 B4@0
      B5@1 B5@2 B5@0 B6@1 B6@0 B7@1 B7@2 B8@2 B8@1 B9@1 B7@0 B9@2 B10@2 B8@0 B9@0 B10@0
      B10@1[] ]], count)))
  end)

  it("124. gaps and cancels", function()
    assert.equal("1 3 4 6 7 10", (run(1, "B1@0 B3@0 B4@0 B6@0 B7@0 B10@0", count)))
    assert.equal("1 -2 3 -4 5 -6", (run(3, [[
      B1@0 B1@2 B1@1 B2@0 B2@2 C2@1 B3@1 B3@2 B3@0 C4@1 B4@2 B4@0 B5@2 B5@1 B5@0 B6@0 C6@1 B6@2 ]],
      count)))
  end)

  it("a cancel tells of the older ones, each once", function()
    assert.equal("-1<3 -2<3 -3 4", (run(2, "B1@0 B2@0 C3@1 C2@1 B1@1 B3@0 B3@1 B4@0 B4@1", count)))
  end)

  it("counts a close as the barrier of all", function()
    assert.equal("2", (run(2, "B1@0 B2@0 E1", count))) -- the newest that is complete takes 1 along
    assert.equal("1 2", (run(3, "E2 B1@0 B1@1 B2@1 E1 B2@0", count)))
  end)

  it("keeps count of 50 at most", function()
    local script = {}
    for id = 1, 60 do script[#script + 1] = "B" .. id .. "@0" end
    for id = 1, 12 do script[#script + 1] = "B" .. id .. "@1" end
    assert.equal("11 12", (run(2, table.concat(script, " "), count)))
  end)

  it("does not overtake, whatever the barrier says", function()
    assert.equal("1", (run(2, "H1@0[]{} d0 d1 H1@1[]{}", count)))
  end)
end)
