local probe = require "streamckpt.probe"

-- Drives one aligner by a script: "B2@1" barrier, "C2@1" cancellation (by mail here: the channel
-- does not matter), "E1" close, "T2" trigger by mail, "d1" data (its channel must not be held).
-- A step may be followed by "[...]": the channels that must be held then. Gives the log of starts
-- and aborts: "1" start of 1, "-2" abort of 2, "-2<3" abort of 2 because of 3.
local function run(channels, script)
  local aligner, log = probe.barrier_new(channels), {}
  local function blocked()
    local list = {}
    for c = 0, channels - 1 do
      if probe.barrier_held(aligner, c) then list[#list + 1] = tostring(c) end
    end
    return table.concat(list, ",")
  end
  local function note(abort, by, _, _, start)
    if abort ~= 0 then log[#log + 1] = "-" .. abort .. (by ~= 0 and "<" .. by or "") end
    if start ~= 0 then log[#log + 1] = tostring(start) end
  end
  for step in script:gmatch "%S+" do
    local kind, a, b = step:match "^(%a)(%d+)@?(%d*)"
    a, b = tonumber(a), tonumber(b)
    if kind == "B" then note(probe.barrier_barrier(aligner, b, a))
    elseif kind == "C" then note(probe.barrier_abort(aligner, a))
    elseif kind == "E" then note(probe.barrier_close(aligner, a))
    elseif kind == "T" then note(probe.barrier_trigger(aligner, a))
    elseif kind == "d" then assert.is_false(probe.barrier_held(aligner, a), step) end
    local expected = step:match "%[(.*)%]"
    if expected then assert.equal(expected, blocked(), step) end
  end
  local pending, missing = probe.barrier_state(aligner)
  local held = blocked()
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
    assert.equal("-1<2 2", (run(2, "B1@0[0] T2[] d0 B2@0[0] B2@1[]")))
    assert.equal("-3", (run(1, "C3@0 T3 T2")))
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

  -- The oracle keeps, for each checkpoint, the set of channels that brought its barrier, and works
  -- everything out anew at each event; no counters, no flags.
  local function naive(channels)
    local m = { done = 0, pending = nil, brought = {}, closed = {} }
    local function finish_if_complete()
      if not m.pending then return 0 end
      for c = 0, channels - 1 do
        if not m.closed[c] and not m.brought[m.pending][c] then return 0 end
      end
      m.done, m.pending = m.pending, nil
      return m.done
    end
    local function begin(id)
      local abort = 0
      if m.pending and m.pending < id then abort = m.pending end
      m.pending, m.brought[id] = id, m.brought[id] or {}
      return abort
    end
    local function stale(id) return id <= m.done or (m.pending and id < m.pending) end
    function m.B(c, id)
      if m.closed[c] or stale(id) then return 0, 0, 0 end
      local abort = begin(id)
      m.brought[id][c] = true
      return abort, abort ~= 0 and id or 0, finish_if_complete()
    end
    function m.T(_, id)
      if stale(id) then return 0, 0, 0 end
      local abort = begin(id)
      return abort, abort ~= 0 and id or 0, finish_if_complete()
    end
    function m.E(c)
      m.closed[c] = true
      return 0, 0, finish_if_complete()
    end
    function m.C(_, id)
      if stale(id) then return 0, 0, 0 end
      m.done, m.pending = id, nil
      return id, 0, 0
    end
    function m.held(c)
      return m.pending ~= nil and m.brought[m.pending][c] == true and not m.closed[c]
    end
    return m
  end

  local drive = {
    B = function(a, c, id) return probe.barrier_barrier(a, c, id) end,
    T = function(a, _, id) return probe.barrier_trigger(a, id) end,
    E = function(a, c) return probe.barrier_close(a, c) end,
    C = function(a, _, id) return probe.barrier_abort(a, id) end,
  }

  -- Runs one history on both; a text where they differ.
  local function compare(channels, history, length)
    local aligner, model = probe.barrier_new(channels), naive(channels)
    local held, fault = {}, nil
    for i = 1, length do
      local e = history[i]
      local abort, by, release, hold, start = drive[e[1]](aligner, e[2], e[3])
      local mabort, mby, mstart = model[e[1]](e[2], e[3])
      if e[1] == "E" then held[e[2]] = nil end
      local releases = next(held) ~= nil and (abort ~= 0 or start ~= 0)
      if release ~= releases then fault = "release" end
      if release then held = {} end
      if hold then held[e[2]] = true end
      if abort ~= mabort or by ~= mby or start ~= mstart then fault = "actions" end
      if (probe.barrier_state(aligner)) ~= (model.pending or 0) then fault = "pending" end
      for c = 0, channels - 1 do
        local h = probe.barrier_held(aligner, c)
        -- What the actions say, what the aligner says, and what the model says is one.
        if h ~= model.held(c) or h ~= (held[c] or false) then fault = "held" end
      end
      if fault then break end
    end
    probe.barrier_destroy(aligner)
    if not fault then return end
    local text = {}
    for i = 1, length do
      text[i] = history[i][1] .. (history[i][3] or "") .. "@" .. history[i][2]
    end
    return fault .. ": " .. table.concat(text, " ")
  end

  it("agrees with a naive model on every history of up to five events", function()
    local alphabet = { { "E", 0 }, { "E", 1 }, { "T", 0, 2 }, { "C", 0, 1 }, { "C", 0, 2 } }
    for c = 0, 1 do
      for id = 1, 3 do alphabet[#alphabet + 1] = { "B", c, id } end
    end
    local history, count = {}, 0
    local function extend(depth)
      if depth > 5 then
        count = count + 1
        local fault = compare(2, history, 5) -- every shorter history is the beginning of one
        if fault then error(fault) end
        return
      end
      for _, e in ipairs(alphabet) do
        history[depth] = e
        extend(depth + 1)
      end
    end
    extend(1)
    assert.equal(11 ^ 5, count)
  end)

  it("agrees with a naive model on long random histories", function()
    local seed = os.time()
    print("aligner seed " .. seed)
    math.randomseed(seed)
    for _ = 1, 300 do
      local channels, history, id = math.random(1, 6), {}, 1
      for i = 1, 80 do
        local p = math.random()
        if math.random() < 0.15 then id = id + 1 end
        local kind = p < 0.86 and "B" or p < 0.93 and "C" or p < 0.97 and "T" or "E"
        history[i] = { kind, math.random(0, channels - 1), math.max(1, id + math.random(-2, 1)) }
      end
      local fault = compare(channels, history, #history)
      assert.is_nil(fault, fault and "seed " .. seed .. ", " .. fault)
    end
  end)
end)
