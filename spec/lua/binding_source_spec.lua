local rig = require "support.rig"

local values = rig.values

-- A reader that is handed its splits as the runtime would, in order, when it asks.
local function run(r, splits, limit)
  local out, dealt = {}, 0
  for _ = 1, limit or 1000 do
    local state, events = r:poll()
    assert(state, events)
    for _, e in ipairs(events) do
      if e.how == "emit" or e.how == "write" then out[#out + 1] = e.value end
      if e.how == "ask" then
        dealt = dealt + 1
        if splits[dealt] ~= nil then r:add_split(splits[dealt]) else r:no_more() end
      end
    end
    if state == "ended" then return out end
  end
  return out, "did not end"
end

local COUNT = [[{
  splits = function() return { { from = 1, to = 3 }, { from = 10, to = 11 } } end,
  read = function(ctx, split, position)
    position = position or split.from
    if position > split.to then return nil end
    ctx:emit(position)
    return position + 1
  end,
}]]

describe("binding: source", function()
  it("lists its splits in slot 0", function()
    local r = rig.new(COUNT, "source")
    assert.same({ { from = 1, to = 3 }, { from = 10, to = 11 } }, r:splits(2))
    r = rig.new("{ splits = function(p) return { p, p + 1, p + 2 } end, read = print }", "source")
    assert.same({ 3, 4, 5 }, r:splits(3))
    r = rig.new("{ splits = function() return {} end, read = print }", "source")
    assert.equal(0, #r:splits(1))
    r = rig.new("{ read = print }", "source")
    assert.same({ 1 }, r:splits(5))
  end)

  it("says why splits cannot be dealt", function()
    local function message(body)
      local r = rig.new("{ splits = " .. body .. ", read = print }", "source")
      local ok, m, code = r:splits(1)
      assert.is_nil(ok)
      return m, code
    end
    local m, code = message("function() error('no folder') end")
    assert.equal("EUSER", code)
    assert.truthy(m:find("no folder", 1, true))
    assert.truthy(m:find("stack traceback", 1, true))
    assert.truthy(message("function() end"):find("must return an array of plain values, not a nil", 1, true))
    assert.truthy(message("function() return { a = 1 } end"):find("must return an array", 1, true))
    assert.truthy(message("5"):find("'splits' of a source must be a function, not a number", 1, true))
    m, code = message("function() return { 1, print } end")
    assert.equal("EVALUE", code)
    assert.truthy(m:find("a split that 'splits' of a source returned cannot be sent", 1, true))
  end)

  it("reads split after split and ends", function()
    local r = rig.new(COUNT, "source")
    assert.same({ 1, 2, 3, 10, 11 }, (run(r, r:splits(1))))
    r = rig.new(COUNT, { kind = "source", chained = {} })
    assert.same({ 1, 2, 3, 10, 11 }, (run(r, r:splits(1))))
  end)

  it("asks for a split, waits for it, and ends when there is none", function()
    local r = rig.new(COUNT, "source")
    local state, events, mid, wake = r:poll()
    assert.equal("idle", state)
    assert.equal("ask", events[1].how)
    assert.is_false(mid)
    assert.equal(math.maxinteger, wake)
    r:no_more()
    assert.equal("ended", (r:poll()))
  end)

  it("asks for another split while all that it has wait", function()
    -- A split that never ends, as the partition of a queue: the others are to be read all the same.
    local r = rig.new([[{ read = function(ctx, split, position)
      if not position then ctx:emit(split) end
      return 1, 60000
    end }]], "source")
    local out, dealt = {}, 0
    for _ = 1, 20 do
      local _, events = r:poll()
      for _, e in ipairs(events) do
        if e.how == "emit" or e.how == "write" then out[#out + 1] = e.value end
        if e.how == "ask" then
          dealt = dealt + 1
          if dealt <= 3 then r:add_split(dealt) else r:no_more() end
        end
      end
    end
    assert.same({ 1, 2, 3 }, out)
    assert.equal(4, dealt) -- and once there is none left it asks no more
  end)

  it("is mid-record from the first emission of a read until it returns", function()
    local r = rig.new([[{ read = function(ctx, split, position)
      if position then return nil end
      ctx:emit("a"); ctx:emit("b", 77)
      return 1
    end }]], "source")
    r:add_split(1)
    local state, events, mid = r:poll()
    assert.same({ "emit", "a", true }, { state, events[1].value, mid })
    assert.is_nil(events[1].ts)
    state, events, mid = r:poll()
    assert.same({ "emit", "b", true }, { state, events[1].value, mid })
    assert.equal(77, events[1].ts)
    state, events, mid = r:poll()
    assert.same({ "done", 0, false }, { state, #events, mid })
    assert.equal("done", (r:poll())) -- the read that returns nil
    assert.equal("idle", (r:poll()))
  end)

  it("gives what a callback emitted before the read counts as returned", function()
    local r = rig.new([[{ read = function(ctx, split, position)
      if position then return nil end
      ;("ab"):gsub(".", function(c) ctx:emit(c) end)
      return 1
    end }]], "source")
    r:add_split(1)
    local state, events, mid = r:poll()
    assert.same({ "emit", "a", true }, { state, events[1].value, mid })
    state, events, mid = r:poll()
    assert.same({ "emit", "b", true }, { state, events[1].value, mid })
    local last, _, still = r:poll()
    assert.same({ "done", false }, { last, still })
  end)

  it("waits when its exchange is full", function()
    local r = rig.new(COUNT, { kind = "source", chained = {} })
    r:add_split { from = 1, to = 2 }
    r:full(true)
    local state, events, mid = r:poll()
    assert.same({ "blocked", 1, true }, { state, events[1].value, mid })
    state, events, mid = r:poll()
    assert.same({ "done", 0, false }, { state, #events, mid })
    state, events = r:poll()
    assert.same({ "blocked", 2 }, { state, events[1].value })
  end)

  it("waits as long as read says", function()
    local r = rig.new([[{ read = function(ctx, split, position)
      position = (position or 0) + 1
      if position == 3 then return nil end
      ctx:emit(position)
      return position, 250
    end }]], { kind = "source", chained = {} })
    r:time(1000)
    r:add_split(1)
    local state, events, _, wake = r:poll()
    assert.same({ "idle", 1, 1250 }, { state, events[1].value, wake })
    assert.equal("idle", (r:poll()))
    r:time(1249)
    assert.equal("idle", (r:poll()))
    r:time(1250)
    state, events, _, wake = r:poll()
    assert.same({ "idle", 2, 1500 }, { state, events[1].value, wake })
    r:time(1500)
    assert.equal("done", (r:poll()))
    assert.equal("ask", select(2, r:poll())[1].how)
  end)

  it("reads another split while one waits", function()
    local r = rig.new([[{ read = function(ctx, split, position)
      ctx:emit(split .. (position or 0))
      return (position or 0) + 1, split == "slow" and 100 or nil
    end }]], { kind = "source", chained = {} })
    r:add_split("slow")
    r:add_split("fast")
    local out = {}
    for i = 1, 5 do
      local _, events = r:poll()
      out[i] = events[1].value
    end
    assert.same({ "slow0", "fast0", "fast1", "fast2", "fast3" }, out)
    r:time(100)
    -- The current one is read as long as it does not wait.
    assert.equal("fast4", select(2, r:poll())[1].value)
  end)

  it("restores every split where it was, and continues exactly there", function()
    local spec = [[{ read = function(ctx, split, position)
      position = position or { at = 1, text = "é\0" }
      if position.at > split.n then return nil end
      ctx:emit(split.name .. position.at .. position.text)
      return { at = position.at + 1, text = position.text }
    end }]]
    local whole = {}
    for i = 1, 4 do whole[i] = "a" .. i .. "é\0" end
    for i = 1, 3 do whole[4 + i] = "b" .. i .. "é\0" end
    for stop = 0, 7 do
      local r = rig.new(spec, { kind = "source", chained = {} })
      r:add_split { name = "a", n = 4 }
      r:add_split { name = "b", n = 3 }
      local got = {}
      while #got < stop do
        for _, v in ipairs(values(select(2, r:poll()), "write")) do got[#got + 1] = v end
      end
      local state = r:snapshot()
      r:close()
      local restored = rig.new(spec, { kind = "source", chained = {} })
      assert(restored:restore(state))
      for _, v in ipairs((run(restored, {}))) do got[#got + 1] = v end
      assert.same(whole, got)
    end
  end)

  it("keeps a split that has not begun in its snapshot", function()
    local r = rig.new(COUNT, "source")
    r:add_split { from = 5, to = 6 }
    local again = rig.new(COUNT, "source")
    assert(again:restore(r:snapshot()))
    assert.same({ 5, 6 }, (run(again, {})))
  end)

  it("refuses state that is damaged", function()
    local r = rig.new(COUNT, "source")
    r:add_split { from = 5, to = 6 }
    local state = r:snapshot()
    local again = rig.new(COUNT, "source")
    local ok, message, code = again:restore((state:gsub("\165split", "\165spill")))
    assert.is_nil(ok)
    assert.equal("ECORRUPT", code)
    assert.truthy(message:find("split 0 of the restored ones is damaged", 1, true))
    assert.is_true(again:restore("\128")) -- no lists at all
  end)

  it("errors in read name split and position, and a bad position is refused", function()
    local function message(body)
      local read = "function(ctx, split, position) " .. body .. " end"
      local r = rig.new("{ on_error = 'skip', read = " .. read .. " }", "source")
      r:add_split { file = "x.csv" }
      local ok, m, code
      for _ = 1, 3 do
        ok, m, code = r:poll()
        if not ok then break end
      end
      assert.equal("EUSER", code)
      return m
    end
    local m = message("if position then error('broken') end return { line = 7 }")
    assert.truthy(m:find("broken", 1, true))
    assert.truthy(m:find("x.csv", 1, true))
    assert.truthy(m:find('"line"', 1, true))
    assert.truthy(message("return print"):find("read returned a position that cannot be stored", 1, true))
    assert.truthy(message("return 1, 'soon'"):find("a wait that is no number of milliseconds", 1, true))
    assert.truthy(message("return 1, -5"):find("a wait", 1, true))
    assert.truthy(message("coroutine.yield()"):find("coroutine.yield", 1, true))
  end)

  it("may be left in the middle of a read", function()
    local r = rig.new([[{ read = function(ctx)
      local _ <close> = setmetatable({}, { __close = function() closed = true end })
      ctx:emit(1)
      return 1
    end, close = function() assert(closed) end }]], "source")
    r:add_split(1)
    assert.equal("emit", (r:poll()))
    r:close()
  end)

  it("feeds a chain", function()
    local r = rig.new({ COUNT, "{ fn = function(v) return v * 10 end }" }, { "source", "map" })
    r:add_split { from = 1, to = 2 }
    local _, events = r:poll()
    assert.same({ 10 }, values(events, "emit", 2))
  end)
end)

describe("binding: generator", function()
  local function generator(spec, op)
    return rig.new(spec, op or "generator")
  end

  it("gives fn(i) for i from 0 on, nil skips", function()
    local r = generator("{ count = 6, fn = function(i) if i ~= 3 then return i * i end end }")
    local splits = r:splits(1)
    assert.equal(1, #splits)
    assert.same({ 0, 1, 4, 16, 25 }, (run(r, splits)))
  end)

  it("without fn gives the index", function()
    local r = generator("{ count = 3 }")
    assert.same({ 0, 1, 2 }, (run(r, r:splits(1))))
  end)

  it("splits k, k + P, ... share all indices without overlap", function()
    local seen = {}
    local r = generator("{ count = 10 }")
    for k, split in ipairs(r:splits(3)) do
      local reader = generator("{ count = 10 }")
      local got = run(reader, { split })
      for j, i in ipairs(got) do
        assert.equal(k - 1 + 3 * (j - 1), i)
        assert.is_nil(seen[i])
        seen[i] = true
      end
    end
    for i = 0, 9 do assert.is_true(seen[i]) end
  end)

  it("several splits in one reader go on together", function()
    local r = generator("{ count = 7 }")
    for _, split in ipairs(r:splits(3)) do r:add_split(split) end
    assert.same({ 0, 1, 2, 3, 4, 5, 6 }, (run(r, {})))
  end)

  it("gives at most one record a poll, and none without indices", function()
    local r = generator("{ count = 2 }")
    r:add_split { first = 0, step = 1 }
    for i = 0, 1 do
      local state, events, mid = r:poll()
      assert.same({ "emit", i, false }, { state, events[1].value, mid })
    end
    assert.equal("idle", (r:poll()))
    r:no_more()
    assert.equal("ended", (r:poll()))
    r = generator("{ count = 0 }")
    assert.same({}, (run(r, r:splits(2))))
  end)

  it("paces by the wall clock: `rate` a second over the whole job", function()
    local r = generator("{ rate = 10, count = 100 }") -- two splits: each 5 a second
    local splits = r:splits(2)
    r:time(1000)
    r:add_split(splits[1])
    assert.equal("emit", (r:poll()))
    local state, _, _, wake = r:poll()
    assert.same({ "idle", 1200 }, { state, wake })
    r:time(1199)
    assert.equal("idle", (r:poll()))
    r:time(1200)
    assert.equal("emit", (r:poll()))
    assert.equal("idle", (r:poll()))
    r:time(1800) -- what was missed is made up for
    local n = 0
    while (r:poll()) == "emit" do n = n + 1 end
    assert.equal(3, n)
  end)

  it("restores the next index; its pace begins anew", function()
    local r = generator("{ rate = 10, count = 5 }")
    r:time(1000)
    r:add_split { first = 0, step = 1 }
    assert.equal("emit", (r:poll()))
    r:time(1100)
    assert.equal("emit", (r:poll()))
    local again = generator("{ rate = 10, count = 5 }")
    assert(again:restore(r:snapshot()))
    again:time(50000)
    local state, events = again:poll()
    assert.same({ "emit", 2 }, { state, events[1].value })
    local rest, _, _, wake = again:poll()
    assert.same({ "idle", 50100 }, { rest, wake })
  end)

  it("waits when its exchange is full, and loses nothing", function()
    local r = generator("{ count = 2 }", { kind = "generator", chained = {} })
    r:add_split { first = 0, step = 1 }
    r:full(true)
    local state, events = r:poll()
    assert.same({ "blocked", 0 }, { state, events[1].value })
    state, events = r:poll()
    assert.same({ "blocked", 1 }, { state, events[1].value })
  end)

  it("errors of fn name the index; damaged splits are refused", function()
    local r = generator("{ fn = function(i) error('no ' .. i) end }")
    r:add_split { first = 4, step = 2 }
    local ok, message, code = r:poll()
    assert.is_nil(ok)
    assert.equal("EUSER", code)
    assert.truthy(message:find("no 4", 1, true))
    assert.truthy(message:find("index: 4", 1, true))
    for _, bad in ipairs { 1, { first = 1 }, { first = -1, step = 1 }, { first = 1, step = 0 } } do
      ok, _, code = generator("{}"):add_split(bad)
      assert.is_nil(ok)
      assert.equal("ECORRUPT", code)
    end
  end)

  it("an endless one ends at the largest index at last", function()
    local r = generator("{}")
    r:add_split { first = math.maxinteger - 1, step = 5 }
    local state, events = r:poll()
    assert.same({ "emit", math.maxinteger - 1 }, { state, events[1].value })
    assert.equal("idle", (r:poll()))
  end)
end)
