local probe = require "streamckpt.probe"
local temp_dir = require "support.temp_dir"

local EVENT, PROCESSING = 0, 1

describe("timers", function()
  local dir
  setup(function() dir = temp_dir.create() end)
  teardown(function() temp_dir.remove(dir) end)

  local h, t
  before_each(function()
    h = probe.heap_new("timed", 0, 127)
    t = probe.timers_new(h)
  end)

  -- Keys of the specs: k1 in group 5, k2 in group 100, others in group 7.
  local function group(key) return ({ k1 = 5, k2 = 100 })[key] or 7 end
  local function register(time, key, space, domain)
    assert(probe.timers_register(t, domain or EVENT, time, group(key), key, space or ""))
  end
  local function delete(time, key, space, domain)
    assert(probe.timers_delete(t, domain or EVENT, time, group(key), key, space or ""))
  end

  -- One advance; on_timer(time, key, space) may register. Returns "time key space" of all fired.
  local function advance(upto, domain, on_timer, timers)
    local fired = {}
    timers = timers or t
    probe.timers_begin(timers, domain or EVENT)
    for _ = 1, 1000 do
      local time, g, key, space = probe.timers_pop(timers, domain or EVENT, upto)
      if not time then return fired end
      assert.equal(group(key), g)
      fired[#fired + 1] = ("%d %s %s"):format(time, key, space)
      if on_timer then on_timer(time, key, space) end
    end
    error("an advance does not end")
  end

  it("068. event-time fire order", function()
    for _, time in ipairs { 5, 1, 3 } do register(time, "a") end
    assert.same({ "1 a ", "3 a " }, advance(3))
    assert.same({ "5 a " }, advance(10))
    assert.same({}, advance(10))
  end)

  it("orders negative times first, and fires equal times by group, then by bytes", function()
    for _, time in ipairs { 0, -1, math.mininteger, math.maxinteger, 1 } do register(time, "a") end
    register(1, "k2")
    register(1, "k1", "z")
    register(1, "k1", "b")
    register(1, "b")
    local first, last = ("%d a "):format(math.mininteger), ("%d a "):format(math.maxinteger)
    assert.same({ first, "-1 a ", "0 a ", "1 k1 b", "1 k1 z", "1 a ", "1 b ", "1 k2 ", last },
                advance(math.maxinteger))
  end)

  it("069. keys and namespaces isolated", function()
    for _, key in ipairs { "k1", "k2" } do
      for _, space in ipairs { "ciao", "hello" } do register(10, key, space) end
    end
    assert.equal(4, probe.timers_count(t, EVENT))
    assert.same({ "10 k1 ciao", "10 k1 hello", "10 k2 ciao", "10 k2 hello" }, advance(10))
    assert.equal(0, probe.timers_count(t, EVENT))
  end)

  it("070. delete", function()
    for _, domain in ipairs { EVENT, PROCESSING } do
      for _, key in ipairs { "k1", "k2" } do
        for _, space in ipairs { "ciao", "hello" } do register(10, key, space, domain) end
      end
      delete(10, "k1", "hello", domain)
      delete(10, "k2", "ciao", domain)
      assert.equal(2, probe.timers_count(t, domain))
      assert.same({ "10 k1 ciao", "10 k2 hello" }, advance(10, domain))
    end
  end)

  it("071. duplicate registration", function()
    for _ = 1, 3 do register(10, "k", "ns") end
    assert.equal(1, probe.timers_count(t, EVENT))
    assert.same({ "10 k ns" }, advance(10))
  end)

  it("072. delete of a non-existing timer", function()
    register(99, "k", "other")
    delete(99, "k", "ns")
    delete(98, "k", "other")
    delete(99, "k", "other", PROCESSING)
    assert.equal(1, probe.timers_count(t, EVENT))
    assert.same({ "99 k other" }, advance(99))
  end)

  it("073. timer in the past", function()
    assert.same({}, advance(50))
    register(20, "k")
    assert.equal(20, probe.timers_next(t, EVENT)) -- still there: nothing fired inside the call
    assert.same({ "20 k " }, advance(51))
    assert.same({}, advance(52))
  end)

  it("074. timer registers another due timer", function()
    register(10, "k")
    local fired = advance(20, EVENT, function(time)
      if time == 10 then register(12, "k") end
      if time == 12 then register(30, "k") end
    end)
    assert.same({ "10 k ", "12 k " }, fired)
    assert.equal(30, probe.timers_next(t, EVENT))
  end)

  it("075. register and delete self in onTimer", function()
    register(10, "k")
    local again = function() register(10, "k") end
    assert.same({ "10 k " }, advance(10, EVENT, again))
    assert.equal(10, probe.timers_next(t, EVENT))
    assert.equal(1, probe.timers_count(t, EVENT))
    assert.same({ "10 k " }, advance(10, EVENT, again)) -- once an advance
    assert.same({ "10 k " }, advance(10, EVENT, function() delete(10, "k") end))
    assert.is_nil(probe.timers_next(t, EVENT))
  end)

  it("puts off what is registered behind the fired timer, nothing that was there", function()
    register(10, "k1", "a")
    register(10, "k1", "c")
    local fired = advance(10, EVENT, function(_, key, space)
      if space == "a" then
        register(10, key, "b")  -- new, not later: the next advance
        register(10, key, "c")  -- there already: this one
        register(5, key, "z")   -- new and earlier: the next
      end
    end)
    assert.same({ "10 k1 a", "10 k1 c" }, fired)
    assert.equal(5, probe.timers_next(t, EVENT))
    assert.same({ "5 k1 z", "10 k1 b" }, advance(10))
  end)

  it("forgets a put-off timer that is deleted in the same advance", function()
    register(10, "k")
    local fired = advance(10, EVENT, function()
      register(9, "k")
      register(8, "k")
      assert.equal(8, probe.timers_next(t, EVENT))
      delete(8, "k")
    end)
    assert.same({ "10 k " }, fired)
    assert.same({ "9 k " }, advance(10))
    assert.equal(0, probe.timers_count(t, EVENT))
  end)

  local function snapshot(id)
    probe.heap_freeze(h, id)
    while probe.heap_step(h, 100) do end -- folds what an earlier cut left
    local snap = assert(probe.heap_ready(h))
    local handle = assert(probe.heap_write(h, snap, dir, "timers-" .. id))
    return handle, snap
  end

  local function restored(handle, first, last)
    local window = probe.heap_new("timed", first, last)
    assert(probe.heap_load(window, dir, handle, first, last))
    local timers = probe.timers_new(window)
    assert(probe.timers_rebuild(timers))
    return timers
  end

  local function both_domains()
    register(10, "k1", "ciao", PROCESSING)
    register(10, "k1", "hello", EVENT)
    register(10, "k2", "ciao", EVENT)
    register(10, "k2", "hello", PROCESSING)
  end

  it("076. snapshot/restore both domains", function()
    both_domains()
    local again = restored(snapshot(76), 0, 127)
    assert.same({ "10 k1 ciao", "10 k2 hello" }, advance(10, PROCESSING, nil, again))
    assert.same({ "10 k1 hello", "10 k2 ciao" }, advance(10, EVENT, nil, again))
    for _, domain in ipairs { EVENT, PROCESSING } do
      assert.is_nil(probe.timers_next(again, domain))
      assert.equal(0, probe.timers_count(again, domain))
    end
  end)

  it("077. rebalancing restore", function()
    both_domains()
    local handle = snapshot(77)
    local one, two = restored(handle, 0, 63), restored(handle, 64, 127)
    assert.same({ "10 k1 ciao" }, advance(10, PROCESSING, nil, one))
    assert.same({ "10 k1 hello" }, advance(10, EVENT, nil, one))
    assert.same({ "10 k2 hello" }, advance(10, PROCESSING, nil, two))
    assert.same({ "10 k2 ciao" }, advance(10, EVENT, nil, two))
  end)

  it("078. processing timers overdue at restore", function()
    register(100, "k", "", PROCESSING)
    local again = restored(snapshot(78), 0, 127)
    assert.equal(100, probe.timers_next(again, PROCESSING)) -- known at once, before any record
    assert.same({ "100 k " }, advance(500, PROCESSING, nil, again))
  end)

  it("079. one physical wake-up", function()
    for _, time in ipairs { 20, 10, 30, 10, 20 } do register(time, "k", "", PROCESSING) end
    for _, time in ipairs { 10, 20, 30 } do
      assert.equal(time, probe.timers_next(t, PROCESSING))
      assert.same({ time .. " k " }, advance(time, PROCESSING))
    end
    assert.is_nil(probe.timers_next(t, PROCESSING))
    register(50, "k1", "", PROCESSING)
    assert.equal(50, probe.timers_next(t, PROCESSING))
    register(40, "k2", "", PROCESSING) -- an earlier one, of another group
    assert.equal(40, probe.timers_next(t, PROCESSING))
  end)

  it("080. timers during end of input", function()
    register(1000, "k")
    register(10 ^ 12 // 1 | 0, "k", "", PROCESSING)
    assert.same({ "1000 k " }, advance(math.maxinteger))
    assert.is_nil(probe.timers_next(t, EVENT))
    assert.equal(1, probe.timers_count(t, PROCESSING))
  end)

  it("081. interruptible firing", function()
    for i = 1, 10000 do
      assert(probe.timers_register(t, EVENT, i % 100, i % 128, "key" .. i, ""))
    end
    probe.timers_begin(t, EVENT)
    local seen, last = {}, -1
    local function pop()
      local time, _, key = probe.timers_pop(t, EVENT, 100)
      if not time then return false end
      assert.is_true(time >= last)
      assert.is_nil(seen[key])
      seen[key], last = true, time
      return true
    end
    for _ = 1, 10 do assert.is_true(pop()) end
    local handle, snap = snapshot(81)
    local again = restored(handle, 0, 127)
    assert.equal(9990, probe.timers_count(again, EVENT))
    for _ = 1, 5000 do assert.is_true(pop()) end -- goes on while the snapshot is written
    probe.heap_snapshot_done(h, snap)
    local n = 5010
    while pop() do
      n = n + 1
      probe.heap_step(h, 1)
    end
    assert.equal(10000, n)
    assert.equal(0, probe.timers_count(t, EVENT))
  end)

  it("refuses to take its states where a snapshot has them of another kind", function()
    local other = probe.heap_new("timed", 0, 127)
    probe.heap_declare(other, "_timers/processing", 3)
    local none, _, code = probe.timers_new(other)
    assert.is_nil(none)
    assert.equal("ESTATE", code)
  end)

  it("names the key group of a restored timer that is damaged", function()
    local state = probe.heap_declare(h, "_timers/event", 6)
    for _, bytes in ipairs { "short", ("\0"):rep(8) .. "\0\0\0\9" .. "tooshort" } do
      probe.heap_map_put(h, state, 9, "", "", bytes, "")
      local ok, message, code = probe.timers_rebuild(t)
      assert.is_nil(ok)
      assert.equal("ECORRUPT", code)
      assert.truthy(message:find("key group 9", 1, true))
      probe.heap_clear(h, state, 9, "", "")
    end
    assert(probe.timers_rebuild(t))
  end)

  it("agrees with a plain set over random histories", function()
    for seed = 1, 40 do
      math.randomseed(seed)
      h = probe.heap_new("timed", 0, 127)
      t = probe.timers_new(h)
      local model, snap = {}, nil -- "time|key" -> { time, key }
      local names = { "k1", "k2", "a", "b" }
      local function pending(upto)
        local list = {}
        for _, e in pairs(model) do
          if e[1] <= upto then list[#list + 1] = e end
        end
        table.sort(list, function(x, y)
          if x[1] ~= y[1] then return x[1] < y[1] end
          if group(x[2]) ~= group(y[2]) then return group(x[2]) < group(y[2]) end
          return x[2] < y[2]
        end)
        for i, e in ipairs(list) do list[i] = ("%d %s "):format(e[1], e[2]) end
        return list
      end
      for _ = 1, 300 do
        local time, key, what = math.random(-20, 20), names[math.random(#names)], math.random(12)
        if what <= 6 then
          register(time, key)
          model[time .. "|" .. key] = { time, key }
        elseif what <= 8 then
          delete(time, key)
          model[time .. "|" .. key] = nil
        elseif what == 9 then
          local expected = pending(time)
          assert.same(expected, advance(time), "seed " .. seed)
          for at, e in pairs(model) do
            if e[1] <= time then model[at] = nil end
          end
        elseif what == 10 and not snap then
          probe.heap_freeze(h, 1)
          snap = probe.heap_ready(h)
          if not snap then probe.heap_abort(h, 1) end
        elseif what == 11 and snap then
          probe.heap_snapshot_done(h, snap)
          snap = nil
        else
          probe.heap_step(h, 2)
        end
        local n = 0
        for _ in pairs(model) do n = n + 1 end
        assert.equal(n, probe.timers_count(t, EVENT), "seed " .. seed)
        local first = pending(math.maxinteger)[1]
        first = first and math.tointeger(first:match("^%S+"))
        assert.equal(first, probe.timers_next(t, EVENT), "seed " .. seed)
      end
    end
  end)
end)
