local probe = require "streamckpt.probe"

-- Operators are Lua tables; each notes in `log` what it is asked. The driver's rules: runtime/chain.h.
local log

local function note(...) log[#log + 1] = table.concat({ ... }, " ") end

local function taken_log()
  local text = table.concat(log, "; ")
  log = {}
  return text
end

-- An operator that hands on what f(value) says: a list of items, emitted one a step.
local function op(name, f, more)
  local out = {}
  local function queue(items)
    for _, item in ipairs(items or {}) do
      out[#out + 1] = type(item) == "table" and item or { bytes = item }
    end
  end
  local ops = {
    begin = function(_, item)
      note(name, item.bytes)
      queue(f and f(item.bytes, item) or {})
    end,
    step = function()
      if #out == 0 then return "done" end
      return "emit", table.remove(out, 1)
    end,
  }
  for k, v in pairs(more or {}) do
    ops[k] = type(v) == "function" and function(...) local items, r = v(...) queue(items) return r end or v
  end
  return ops
end

local function pass(value) return { value } end
local function sink(name, more) return op(name, nil, more) end

local function new(nodes, edges, more)
  local spec = { nodes = nodes, edges = edges }
  for i, n in ipairs(nodes) do
    n.uid = n.uid or ("n" .. i)
    n.source = i == 1 and n.source ~= false
  end
  for k, v in pairs(more or {}) do spec[k] = v end
  return assert(probe.chain_new(spec))
end

local function run(c, steps)
  return assert(c:run(steps))
end

local function record(c, bytes, more)
  assert(c:record(bytes, more))
  return run(c)
end

-- A keyed head with timers behind a source of another chain.
local function keyed(ops, more_nodes, more_edges, more)
  local nodes = { { uid = "head", keyed = true, ops = ops, source = false }, { uid = "src", source = true } }
  local edges = { { 2, 1, by = "hash", key = { "k" } } }
  for _, n in ipairs(more_nodes or {}) do nodes[#nodes + 1] = n end
  for _, e in ipairs(more_edges or {}) do edges[#edges + 1] = e end
  -- the chain that is driven is the first one in topological order: the source's; give it away
  return nodes, edges, more
end

describe("chain: order", function()
  before_each(function() log = {} end)

  it("steps no more an operator that said that it is done", function()
    local steps = 0
    local c = new({ { ops = { begin = function(_, item) note("a", item.bytes) end,
                              step = function()
                                steps = steps + 1
                                return "last", { bytes = "x" .. steps }
                              end } },
                    { ops = { begin = function(_, item) note("b", item.bytes) return "taken" end,
                              step = function() error("stepped") end } } }, { { 1, 2 } })
    assert.equal("idle", record(c, "r"))
    assert.equal("idle", record(c, "s"))
    assert.equal("a r; b x1; a s; b x2", taken_log())
    assert.equal(2, steps)
    assert.is_true(c:idle())
  end)

  it("hands on what an operator emits before it is stepped again", function()
    local c = new({ { ops = op("a", function(v) return { v .. "1", v .. "2" } end) },
                    { ops = op("b", function(v) return { v .. "x", v .. "y" } end) },
                    { ops = sink "c" } }, { { 1, 2 }, { 2, 3 } })
    assert.equal("idle", record(c, "r"))
    assert.equal("a r; b r1; c r1x; c r1y; b r2; c r2x; c r2y", taken_log())
    assert.is_true(c:idle())
  end)

  it("gives a record to all receivers of an output, in the order of the edges", function()
    local c = new({ { ops = op("a", pass) }, { ops = op("b", pass) }, { ops = sink "c" },
                    { ops = sink "d" } }, { { 1, 2 }, { 2, 4 }, { 1, 3 } })
    record(c, "r")
    assert.equal("a r; b r; d r; c r", taken_log())
  end)

  it("keeps side outputs apart", function()
    local c = new({ { ops = op("a", function(v)
                      return { v, { bytes = v .. " late", output = 1 }, { bytes = "odd", output = 2 } }
                    end), outputs = { "main", "late", "unused" } },
                    { ops = sink "b" }, { ops = sink "c" } },
                  { { 1, 2 }, { 1, 3, output = "late" } })
    record(c, "r")
    assert.equal("a r; b r; c r late", taken_log())
  end)

  it("writes to exchanges at once, chained receivers or not", function()
    local c = new({ { ops = op("a", pass) }, { ops = sink "b" }, { uid = "out", new_chain = true },
                    { uid = "spread", parallelism = 2 } },
                  { { 1, 2 }, { 1, 3 }, { 1, 4, by = "broadcast" } })
    record(c, "r")
    assert.equal("a r; b r", taken_log())
    assert.same({ "r" }, c:taken(1))
    assert.same({ "r" }, c:taken(2, 1))
    assert.same({ "r" }, c:taken(2, 2))
  end)

  it("counts what goes in and out", function()
    local c = new({ { ops = op("a", function(v) return { v, v } end) }, { ops = sink "b" } }, { { 1, 2 } })
    record(c, "r")
    assert.equal(1, c:link(1).records_in)
    assert.equal(2, c:link(1).records_out)
    assert.equal(2, c:link(2).records_in)
    assert.equal(0, c:link(2).records_out)
  end)

  it("lets a source emit by polls", function()
    local items = { { "emit", { bytes = "r" } }, { "done" }, { "emit", { watermark = 7 } },
                    { "idle" }, { "emit", { idle = true } }, { "ended" } }
    local c = new({ { ops = { poll = function() return table.unpack(table.remove(items, 1)) end } },
                    { ops = sink "b" }, { uid = "out", new_chain = true } }, { { 1, 2 }, { 1, 3 } })
    local words = {}
    for i = 1, 6 do
      words[i] = assert(c:poll())
      run(c)
    end
    assert.same({ "emit", "done", "emit", "idle", "emit", "ended" }, words)
    assert.equal("b r", taken_log())
    assert.same({ "r", "w7", "idle" }, c:taken(1))
    assert.equal(7, c:link(2).watermark)
  end)
end)

describe("chain: a full exchange", function()
  before_each(function() log = {} end)

  -- One record of 900 bytes fills a buffer of 1024, and one buffer fills the exchange.
  local big = ("x"):rep(900)

  it("suspends everything, and it goes on at the same place", function()
    local c = new({ { ops = op("a", function(v) return { v .. 1, v .. 2, v .. 3 } end) },
                    { ops = op("b", function(v) return { v .. big, v .. big } end) },
                    { uid = "out", new_chain = true } }, { { 1, 2 }, { 2, 3 } },
                  { exclusive = 1, segment = 1024 })
    assert(c:record("r"))
    local got, words = {}, {}
    for _ = 1, 20 do
      local word = run(c)
      words[word] = true
      for _, e in ipairs(c:taken(1, 1)) do got[#got + 1] = e:sub(1, 2) end
      if word == "idle" then break end
    end
    assert.is_true(words.blocked)
    assert.is_true(words.idle)
    assert.equal("a r; b r1; b r2; b r3", taken_log())
    assert.same({ "r1", "r1", "r2", "r2", "r3", "r3" }, got)
  end)

  it("is between two records behind an operator's last word, though an exchange is full", function()
    local function chain_with(word)
      local left = 0
      local c = new({ { ops = { begin = function() left = 1 end,
                                step = function()
                                  if left == 0 then return "done" end
                                  left = left - 1
                                  return word, { bytes = big }
                                end } },
                      { uid = "out", new_chain = true } }, { { 1, 2 } }, { exclusive = 1, segment = 1024 })
      for i = 1, 2 do -- the second record pushes the first one's buffer
        assert(c:record("r"))
        if i == 2 or run(c) ~= "idle" then break end
      end
      return run(c), c:idle()
    end
    assert.same({ "idle", true }, { chain_with "last" })
    assert.same({ "blocked", false }, { chain_with "emit" })
  end)

  it("holds nothing up that is already on its way to a chained receiver", function()
    local c = new({ { ops = op("a", function(v) return { v .. big, v .. big, v } end) },
                    { ops = sink "b" }, { uid = "out", new_chain = true } }, { { 1, 2 }, { 1, 3 } },
                  { exclusive = 1, segment = 1024 })
    assert(c:record("r"))
    assert.equal("blocked", run(c))
    assert.equal("blocked", run(c)) -- and stays so, without a step of anyone
    local before = #log
    assert.equal("blocked", run(c))
    assert.equal(before, #log)
    while run(c) == "blocked" do c:taken(1) end
    assert.equal(4, #log) -- a once, b three times
  end)
end)

describe("chain: overdraft", function()
  before_each(function() log = {} end)
  local big = ("x"):rep(1000)

  -- A record that emits `n` values of a buffer each, into a channel of one buffer.
  local function chain_of(n)
    local values = {}
    for i = 1, n do values[i] = big end
    return new({ { ops = op("a", function() return values end) }, { uid = "out", new_chain = true } },
               { { 1, 2 } }, { exclusive = 1, segment = 1024 })
  end

  it("lets a record that needs several buffers come to its end", function()
    local c = chain_of(6) -- of which the last stays half filled: five are pushed, one has room
    c:overdraft(4)
    assert(c:record("r"))
    assert.equal("blocked", run(c))
    c:overdraft(5)
    assert.equal("idle", run(c))
    assert.equal(6, #c:taken(1))
  end)

  it("is none by default", function()
    local c = chain_of(3)
    assert(c:record("r"))
    assert.equal("blocked", run(c))
  end)
end)

describe("chain: budget", function()
  before_each(function() log = {} end)

  it("suspends after so many steps, and goes on", function()
    local c = new({ { ops = op("a", function(v) return { v, v, v, v, v } end) }, { ops = sink "b" } },
                  { { 1, 2 } })
    assert(c:record("r"))
    local rounds = 1
    while run(c, 1) == "suspended" do rounds = rounds + 1 end
    -- a emits once while the record is begun; then four times, and ends. What b does with one step for a
    -- record belongs to the emission.
    assert.equal(5, rounds)
    assert.equal("a r; b r; b r; b r; b r; b r", taken_log())
  end)
end)

describe("chain: watermarks", function()
  before_each(function() log = {} end)

  local function marks(name, more)
    local m = { begin_watermark = function(w) note(name, "w" .. w) end }
    for k, v in pairs(more or {}) do m[k] = v end
    return op(name, pass, m)
  end

  it("go through all operators and to every output", function()
    local c = new({ { ops = marks "a", outputs = { "main", "late" } }, { ops = marks "b" },
                    { ops = marks "c" }, { uid = "out", new_chain = true },
                    { uid = "late", new_chain = true } },
                  { { 1, 2 }, { 1, 3, output = "late" }, { 2, 4 }, { 1, 5, output = "late" } })
    c:watermark(5)
    assert.equal("idle", run(c))
    assert.equal("a w5; b w5; c w5", taken_log())
    assert.same({ "w5" }, c:taken(1))
    assert.same({ "w5" }, c:taken(2))
    assert.equal(5, c:link(3).watermark)
  end)

  it("never go back and never come twice", function()
    local c = new({ { ops = marks "a" }, { ops = marks "b" }, { uid = "out", new_chain = true } },
                  { { 1, 2 }, { 2, 3 } })
    for _, w in ipairs { 5, 5, 3, 6 } do
      c:watermark(w)
      run(c)
    end
    assert.equal("a w5; b w5; a w6; b w6", taken_log())
    assert.same({ "w5", "w6" }, c:taken(1))
  end)

  it("come after what the operator emits at them", function()
    local c = new({ { ops = op("a", pass, { begin_watermark = function(w) return { "late" .. w } end }) },
                    { ops = marks "b" } }, { { 1, 2 } })
    c:watermark(5)
    run(c)
    assert.equal("b late5; b w5", taken_log())
    assert.equal(5, c:link(1).watermark)
  end)

  it("stop at an operator that makes its own, but the last one does not", function()
    local c = new({ { ops = op("a", function(v) return { v, { watermark = 3 } } end, { swallows = true }) },
                    { ops = marks "b" } }, { { 1, 2 } })
    c:watermark(10)
    c:status(true)
    run(c)
    assert.equal("", taken_log())
    assert.is_false(c:link(2).idle)
    record(c, "r")
    assert.equal("a r; b r; b w3", taken_log())
    c:watermark(math.maxinteger)
    run(c)
    assert.equal("b w" .. math.maxinteger, taken_log())
  end)

  it("of an operator's own never go back either", function()
    local c = new({ { ops = op("a", function() return { { watermark = 9 }, { watermark = 4 } } end) },
                    { uid = "out", new_chain = true } }, { { 1, 2 } })
    record(c, "r")
    assert.same({ "w9" }, c:taken(1))
    assert.equal(9, c:link(1).forwarded)
  end)

  it("hand status on to everyone, without asking operators", function()
    local c = new({ { ops = marks "a" }, { ops = marks "b" }, { uid = "out", new_chain = true } },
                  { { 1, 2 }, { 2, 3 } })
    c:status(true)
    run(c)
    assert.same({ "idle" }, c:taken(1))
    assert.is_true(c:link(2).idle)
    c:status(false)
    run(c)
    assert.same({ "active" }, c:taken(1))
    assert.equal("", taken_log())
  end)
end)

describe("chain: end of input", function()
  before_each(function() log = {} end)

  it("is the last watermark, then every operator's finish from head to tail", function()
    local function finishing(name)
      return op(name, pass, { begin_watermark = function() note(name, "w") end,
                              begin_finish = function() note(name, "finish") return { "last " .. name } end })
    end
    local c = new({ { ops = finishing "a" }, { ops = finishing "b" }, { ops = finishing "c" },
                    { uid = "out", new_chain = true } }, { { 1, 2 }, { 2, 3 }, { 3, 4 } })
    c:finish()
    assert.equal("idle", run(c))
    assert.equal("a w; b w; c w; a finish; b last a; c last a; b finish; c last b; c finish", taken_log())
    assert.same({ "w" .. math.maxinteger, "last a", "last b", "last c" }, c:taken(1))
  end)

  it("passes operators that have nothing to say", function()
    local c = new({ { ops = {} }, { ops = { begin_finish = function() note "b finish" end } } }, { { 1, 2 } })
    c:finish()
    assert.equal("idle", run(c))
    assert.equal("b finish", taken_log())
  end)
end)

describe("chain: idle", function()
  before_each(function() log = {} end)

  it("lets the first operator that holds something back begin", function()
    local held = { "x" }
    local c = new({ { ops = op("a", pass, { begin_idle = function() note "a asked" end }) },
                    { ops = op("b", pass, { begin_idle = function()
                        note "b asked"
                        local items = held
                        held = {}
                        return items, #items > 0
                      end }) },
                    { ops = sink "c" } }, { { 1, 2 }, { 2, 3 } })
    assert.is_true(c:begin_idle())
    run(c)
    assert.equal("a asked; b asked; c x", taken_log())
    assert.is_false(c:begin_idle())
    assert.is_true(c:idle())
  end)
end)

describe("chain: timers", function()
  before_each(function() log = {} end)

  local function timed(more)
    local m = {
      begin_timer = function(domain, time, key, namespace)
        note(domain, time, key, namespace)
        return { domain .. time }
      end,
      begin_watermark = function(w) note("head w" .. w) end,
    }
    for k, v in pairs(more or {}) do m[k] = v end
    return op("head", pass, m)
  end

  local function new_keyed(ops, nodes, edges, more)
    nodes, edges = keyed(ops, nodes, edges)
    local spec = { nodes = nodes, edges = edges, driven = "head" }
    for k, v in pairs(more or {}) do spec[k] = v end
    return assert(probe.chain_new(spec))
  end

  local tail = { { uid = "tail", ops = nil } }
  local tail_edge = { { 1, 3 } }

  before_each(function()
    tail[1].ops = op("tail", nil, { begin_watermark = function(w) note("tail w" .. w) end })
  end)

  it("may have a snapshot between two of them, but not in the middle of one", function()
    local c = new_keyed({ begin_timer = function() end, step = function() return "done" end }, {}, {})
    for t = 1, 3 do c:timer("event", t, "k" .. t, 3) end
    assert.is_true(c:divisible())
    c:watermark(10)
    local seen = ""
    repeat
      local word = run(c, 1)
      seen = seen .. (c:divisible() and "d" or ".")
    until word == "idle"
    assert.equal(".d.d.d", seen:sub(1, 6)) -- each is begun, then done
    assert.is_true(c:idle())
  end)

  it("fire before the watermark is handed on, with their key and namespace", function()
    local c = new_keyed(timed(), tail, tail_edge)
    c:timer("event", 5, "k1", 3, "n")
    c:timer("event", 2, "k2", 7)
    c:timer("event", 9, "k1", 3)
    c:watermark(5)
    assert.equal("idle", run(c))
    assert.equal("event 2 k2 ; tail event2; event 5 k1 n; tail event5; head w5; tail w5", taken_log())
    c:watermark(8)
    run(c)
    assert.equal("head w8; tail w8", taken_log())
    c:watermark(9)
    run(c)
    assert.equal("event 9 k1 ; tail event9; head w9; tail w9", taken_log())
  end)

  it("see the new watermark", function()
    local c
    c = new_keyed(timed { begin_timer = function() note("at " .. c:link(1).watermark) end }, tail, tail_edge)
    c:timer("event", 5, "k", 0)
    c:watermark(6)
    run(c)
    assert.equal("at 6; head w6; tail w6", taken_log())
  end)

  it("081: can be suspended between any two, and nothing is handed on before the last", function()
    local c = new_keyed(timed(), tail, tail_edge)
    for i = 1, 100 do c:timer("event", i, "k" .. i, i % 128) end
    c:watermark(100)
    local rounds = 0
    while run(c, 1) == "suspended" do
      rounds = rounds + 1
      local text = table.concat(log, "; ")
      if not text:find("event 100 k100", 1, true) then assert.is_nil(text:find("w100", 1, true)) end
    end
    assert.truthy(rounds >= 100)
    local text = taken_log()
    assert.matches("event 1 k1 ; tail event1; event 2 k2 ", text, 1, true)
    assert.matches("event 100 k100 ; tail event100; head w100; tail w100$", text)
  end)

  it("of processing time fire up to now, whatever the watermark", function()
    local c = new_keyed(timed(), tail, tail_edge)
    assert.equal(math.maxinteger, c:next_timer())
    c:timer("processing", 30, "k", 0)
    c:timer("processing", 10, "k", 0)
    c:timer("event", 1, "k", 0)
    assert.equal(10, c:next_timer())
    c:timers(9)
    assert.is_true(c:idle())
    c:timers(10)
    run(c)
    assert.equal("processing 10 k ; tail processing10", taken_log())
    assert.equal(30, c:next_timer())
    c:timers(1000)
    run(c)
    assert.equal("processing 30 k ; tail processing30", taken_log())
    assert.equal(math.maxinteger, c:next_timer())
  end)

  it("leave no key behind, in either domain", function()
    local seen = {}
    local c
    c = new_keyed(timed { begin_timer = function() seen[#seen + 1] = c:link(1).has_key end }, tail, tail_edge)
    c:timer("event", 1, "k", 0)
    c:timer("processing", 1, "k", 0)
    c:watermark(1)
    run(c)
    assert.is_false(c:link(1).has_key)
    c:timers(1)
    run(c)
    assert.same({ true, true }, seen)
    assert.is_false(c:link(1).has_key)
    record(c, "r", { key = "k", group = 5 })
    assert.is_false(c:link(1).has_key)
  end)

  it("are suspended by a full exchange, too", function()
    local big = ("x"):rep(900)
    local c = new_keyed(timed { begin_timer = function(_, t) note("timer " .. t) return { big } end },
                        { { uid = "out", new_chain = true } }, { { 1, 3 } }, { exclusive = 1, segment = 1024 })
    for i = 1, 4 do c:timer("event", i, "k", 0) end
    c:watermark(4)
    local blocked, got = 0, {}
    while true do
      local word = run(c)
      for _, e in ipairs(c:taken(1, 1, 1)) do got[#got + 1] = #e > 100 and "big" or e end
      if word == "idle" then break end
      blocked = blocked + 1
    end
    for _, e in ipairs(c:taken(1, 1)) do got[#got + 1] = #e > 100 and "big" or e end
    assert.truthy(blocked > 0)
    assert.same({ "big", "big", "big", "big", "w4" }, got)
  end)

  it("that a snapshot left unfired fire first after a restore, then the watermark goes on", function()
    local c = new_keyed(timed(), tail, tail_edge)
    c:restored(1, 10, 4)  -- the head had begun an advance to 10; the tail got 4
    c:restored(2, 4, 4)
    c:timer("event", 7, "k", 0)
    c:timer("event", 12, "k", 0)
    c:resume()
    assert.is_false(c:idle())
    run(c)
    assert.equal("event 7 k ; tail event7; head w10; tail w10", taken_log())
    c:resume()
    assert.is_true(c:idle())
    c:watermark(8)  -- an input that is behind does not bring it back
    run(c)
    assert.equal(10, c:link(1).watermark)
    assert.equal("", taken_log())
  end)

  it("of an advance that the tail had begun as well are heard of once", function()
    local c = new_keyed(timed(), tail, tail_edge)
    c:restored(1, 10, 4)
    c:restored(2, 10, 4) -- the tail had begun 10 too
    c:resume()
    run(c)
    assert.equal("head w10; tail w10", taken_log())
    assert.equal(10, c:link(1).forwarded)
    assert.equal(10, c:link(2).forwarded)
  end)

  it("an operator hears what the one before it had forwarded, over an exchange that is none any more", function()
    local c = new_keyed(timed(), tail, tail_edge)
    c:restored(1, 10, 10)
    c:restored(2, 4, 4) -- other senders of then were not so far
    c:resume()
    run(c)
    assert.equal("tail w10", taken_log())
    assert.same({ 10, 10 }, { c:link(2).watermark, c:link(2).forwarded })
    c:resume()
    assert.is_true(c:idle())
    c:restored(1, 20, 12) -- and the one before it goes on at once: what is older is not said
    c:restored(2, 10, 10)
    c:resume()
    run(c)
    assert.equal("head w20; tail w20", taken_log())
  end)
end)

describe("chain: keys", function()
  before_each(function() log = {} end)

  local function out_by(key, ops)
    return new({ { ops = ops }, { uid = "keyed", keyed = true } }, { { 1, 2, by = "hash", key = key } })
  end

  local MAP = "\x82\xa1a\x01\xa1b\xa1x" -- {a = 1, b = "x"}

  it("are taken from fields, or come with the item", function()
    -- groups by the reference's rule: 1 mod 128 and "x", checked in data/key_spec
    local c = out_by({ "a" }, op("a", pass))
    record(c, MAP)
    assert.equal(MAP, c:taken(1)[1]:match("^(.*)@%d+$"))
    local own = out_by(nil, op("a", function() return { { bytes = "\x01", key = "\xa1x" } } end))
    record(own, "r")
    assert.matches("^\x01@%d+$", own:taken(1)[1])
  end)

  it("are named with the record where a field is nil or no key", function()
    local c = out_by({ "absent" }, op("a", pass))
    local _, message, label = c:record(MAP)
    assert.equal('EKEY: the key field "absent" is nil in {"a": 1, "b": "x"}', message)
    assert.equal("n1 (n1) 1/1", label)
    local d = out_by({ "a" }, op("a", pass))
    _, message = d:record "\x81\xa1a\x80" -- {a = {}}
    assert.matches('the field "a" of .* cannot be a key', message)
    assert.matches("a map", message)
  end)

  it("that came to the wrong subtask end the job by name", function()
    local nodes, edges = keyed(op("head", pass))
    nodes[1].parallelism = 2
    local c = assert(probe.chain_new { nodes = nodes, edges = edges, driven = "head" })
    assert(c:record("r", { key = "k", group = 63 }))
    run(c)
    local _, message, label = c:record("r", { key = "k", group = 64 })
    assert.equal("EKEY: a record of key group 64 came to a subtask that owns 0 to 63: " ..
                 "its key is not deterministic", message)
    assert.equal("head (head) 1/2", label)
  end)
end)

describe("chain: errors", function()
  before_each(function() log = {} end)

  for _, where in ipairs { "begin", "step", "begin_watermark", "begin_finish", "begin_idle" } do
    it("name the operator whose " .. where .. " fails", function()
      local bad = { [where] = function() error("boom", 0) end }
      local c = new({ { ops = op("a", pass) }, { uid = "bad", name = "my map", ops = bad } }, { { 1, 2 } })
      local _, message, label
      if where == "begin_idle" then
        _, message, label = c:begin_idle()
      else
        if where == "begin_watermark" then c:watermark(1)
        elseif where == "begin_finish" then c:finish()
        else assert(c:record("r")) end
        _, message, label = c:run()
      end
      assert.equal("EUSER: boom", message)
      assert.equal("my map (bad) 1/1", label)
    end)
  end

  it("name the source whose poll fails, and the head", function()
    local c = new({ { uid = "src", ops = { poll = function() error("boom", 0) end,
                                          begin = function() error("bang", 0) end } } }, {})
    local _, message, label = c:poll()
    assert.equal("EUSER: boom", message)
    assert.equal("src (src) 1/1", label)
    _, message, label = c:record("r")
    assert.equal("EUSER: bang", message)
    assert.equal("src (src) 1/1", label)
  end)

  it("name the operator whose timer fails", function()
    local nodes, edges = keyed { begin_timer = function() error("boom", 0) end }
    local c = assert(probe.chain_new { nodes = nodes, edges = edges, driven = "head" })
    c:timer("event", 1, "k", 0)
    c:watermark(1)
    local _, message, label = c:run()
    assert.equal("EUSER: boom", message)
    assert.equal("head (head) 1/1", label)
  end)
end)
