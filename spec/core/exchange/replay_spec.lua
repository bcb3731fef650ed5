local probe = require "streamckpt.probe"
local tmp = require "support.tmp_folder"

local function record(value, group)
  return probe.record_write { value = value, key_group = group, key = group and "\1" }
end
local function watermark(t) return probe.record_write { kind = 1, timestamp = t } end
local function status(idle) return probe.record_write { kind = 2, value = idle and "\xc2" or "\xc3" } end

local function number(n) return string.pack(">BI2", 0xcd, n) end

describe("replay", function()
  local dir, s, blocks, handles
  before_each(function()
    dir = tmp.make()
    s = probe.storage_new(false)
    blocks, handles = {}, {}
  end)
  after_each(tmp.remove)

  -- Blocks of one side of one channel, each a list of records.
  local function keep(t, ...)
    local list = { ... }
    local h = { kind = 3, edge = t.edge or 0, sender = t.sender or 0, receiver = t.receiver or 0,
                origin = t.origin, side = t.side or 0, generation = t.generation or 1, file = "f",
                watermark = t.watermark, idle = t.idle, first = t.first, last = t.last,
                skip = t.skip, directory = t.directory }
    h.from, h.count = #blocks + 1, #list
    for _, records in ipairs(list) do blocks[#blocks + 1] = table.concat(records) end
    handles[#handles + 1] = h
    return h
  end

  -- The edges, by key where `first` stands in a handle.
  local function open(edges, receiver, parallelism)
    local length, checksum, offsets = assert(probe.inflight_write(s, dir .. "/f", 1, 1, blocks))
    offsets[#offsets + 1] = length
    local old, new = {}, {}
    for i, kind in ipairs(edges) do
      old[i] = { from = "a", output = "main", to = "b", partitioner = kind, port = i, ordinal = 0,
                 from_parallelism = 1, to_parallelism = 1 }
      new[i] = { from = "a", to = "b", partitioner = kind, port = i, parallelism = parallelism or 1,
                 max_parallelism = 8 }
    end
    for _, h in ipairs(handles) do
      h.length, h.checksum, h.offset = length, checksum, offsets[h.from]
      h.bytes = offsets[h.from + h.count] - h.offset
    end
    local plan = assert(probe.inflight_plan({
      id = 1, job_id = "j", edges = old,
      operators = { { uid = "b", name = "b", parallelism = 1, max_parallelism = 8,
                      subtasks = { { handles = handles } } } },
    }, new))
    local gates = {}
    for i = 1, #edges do gates[i] = i - 1 end
    return probe.replay_new(plan, gates, receiver or 0)
  end

  -- One read, as the pool would make it; false where none is wanted.
  local function feed(r, want)
    local h, at = probe.replay_want(r)
    if not h then return false end
    probe.replay_feed(r, assert(probe.inflight_read(s, dir, h, at, want or 1)))
    return true
  end

  local function show(value, port)
    local n = string.unpack(">I2", value, 2)
    return port == 10 and tostring(n) or n .. "@" .. port
  end

  -- Up to `most` records, read as they are asked for.
  local function read(r, want, most)
    local out = {}
    while #out < (most or math.huge) do
      local value, port, code = probe.replay_next(r)
      if code then return nil, port, code end
      if value then out[#out + 1] = show(value, port)
      elseif not feed(r, want) then break end
    end
    return table.concat(out, " ")
  end

  local function drained(r) return (select(2, probe.replay_is(r))) end
  local function behind(r, gate) return (select(3, probe.replay_is(r, gate))) end

  it("gives out the receiver's part, then the sender's, channel after channel", function()
    keep({ side = 1, sender = 1 }, { record(number(5)) }, { record(number(6)), record(number(7)) })
    keep({ side = 0, sender = 1 }, { record(number(3)), record(number(4)) })
    keep({ side = 0, sender = 0 }, { record(number(1)) }, { record(number(2)) })
    for _, want in ipairs { 1, 30, 1 << 20 } do
      local r = open { "rebalance" }
      assert.equal("1 2 3 4 5 6 7", read(r, want))
      assert.is_true(drained(r))
      assert.is_false((probe.replay_is(r)))
    end
  end)

  it("reads older generations first, whatever the order of the list", function()
    keep({ generation = 9, origin = 0 }, { record(number(4)) })
    keep({ generation = 2, origin = 0 }, { record(number(2)) })
    keep({ generation = 1, origin = 3 }, { record(number(1)) })
    keep({ generation = 5, origin = 0 }, { record(number(3)) })
    assert.equal("1 2 3 4", read(open { "rebalance" }))
  end)

  it("leaves out records of others: not in the tag, or not this receiver's", function()
    keep({ first = 2, last = 5 }, {
      record(number(1), 1), record(number(2), 2), record(number(3), 3), record(number(4), 4),
      watermark(10), record(number(5), 5), record(number(6), 6),
    })
    assert.equal("2 3 4 5", read(open({ "hash" }, 0, 1)))
    assert.equal("2 3", read(open({ "hash" }, 0, 2)))
    assert.equal("4 5", read(open({ "hash" }, 1, 2)))
    assert.equal("", read(open({ "hash" }, 0, 8)))
    assert.is_true(drained(open({ "hash" }, 0, 8)))
  end)

  it("ends with a block of which nothing is for this receiver", function()
    keep({ first = 0, last = 7 }, { record(number(1), 1) }, { record(number(2), 7), watermark(5) })
    local r = open({ "hash" }, 0, 2)
    assert.equal("1", read(r))
    assert.is_true(drained(r))
  end)

  it("asks for one read at a time, and not for a third before the first is read", function()
    keep({}, { record(number(1)) }, { record(number(2)) }, { record(number(3)) }, { record(number(4)) })
    local r = open { "rebalance" }
    local h, at = probe.replay_want(r)
    assert.equal(h.offset, at)
    assert.is_nil((probe.replay_want(r)))  -- it has asked
    assert.is_nil((probe.replay_next(r)))  -- and nothing is there
    assert.is_false((probe.replay_is(r)))
    assert.is_false(drained(r))
    probe.replay_feed(r, assert(probe.inflight_read(s, dir, h, at, 1)))
    assert.is_true((probe.replay_is(r)))
    assert.is_true(feed(r))                -- one ahead
    assert.is_false(feed(r))
    assert.equal("1", show(probe.replay_next(r)))
    assert.is_false(feed(r))               -- the record still lies in the first one
    assert.equal("2", show(probe.replay_next(r)))
    assert.is_true(feed(r))
    assert.is_false(feed(r))
    assert.equal("3 4", read(r))
  end)

  it("holds up each gate as long as its own channels are not drained", function()
    keep({ edge = 0 }, { record(number(1)), record(number(2)) })
    keep({ edge = 2 }, { record(number(3)) }, { record(number(4)) })
    local r = open { "rebalance", "rebalance", "rebalance" }
    local function gates() return { behind(r, 0), behind(r, 1), behind(r, 2) } end
    assert.same({ true, false, true }, gates())
    assert.equal("1", read(r, 1, 1))
    assert.same({ true, false, true }, gates())
    assert.equal("2", read(r, 1, 1))
    assert.same({ false, false, true }, gates())
    assert.equal("3@12 4@12", read(r))
    assert.same({ false, false, false }, gates())
    assert.is_true(drained(r))
  end)

  it("a record that a channel by key could not have held names the file", function()
    for _, bytes in ipairs { record(number(1)), "\1\2\3", record(number(1), 3):sub(1, -2) } do
      blocks, handles = {}, {}
      keep({ first = 0, last = 7 }, { record(number(1), 2), bytes })
      local r = open { "hash" }
      assert.equal("1", read(r, 1, 1))
      local _, message, code = read(r)
      assert.equal("ECORRUPT", code)
      assert.matches("f, in-flight data", message, 1, true)
    end
  end)

  describe("keeps again what is unread", function()
    -- After n records: what is kept, restored at another parallelism, is exactly what was left.
    local function rest_after(kind, receiver, parallelism, n, want)
      local r = open({ kind, kind }, receiver, parallelism)
      local before = read(r, want, n)
      local rest = probe.replay_rest(r, receiver, "chk-1")
      local after = read(r, want)
      return rest, before, after
    end

    local function restore(rest, kind, parallelism)
      local out, keyed = {}, {}
      for receiver = 0, parallelism - 1 do
        local old, new = {}, {}
        for i = 1, 2 do
          old[i] = { from = "a", output = "main", to = "b", partitioner = kind, port = i, ordinal = 0,
                     from_parallelism = 1, to_parallelism = 1 }
          new[i] = { from = "a", to = "b", partitioner = kind, port = i, parallelism = parallelism,
                     max_parallelism = 8 }
        end
        local plan = assert(probe.inflight_plan({
          id = 2, job_id = "j", edges = old,
          operators = { { uid = "b", name = "b", parallelism = 1, max_parallelism = 8,
                          subtasks = { { handles = rest } } } },
        }, new))
        local r = probe.replay_new(plan, { 0, 1 }, receiver)
        local got = read(r, 1)
        out[#out + 1] = got ~= "" and got or nil
        keyed[receiver] = got
      end
      return table.concat(out, " "), keyed
    end

    it("at every place, with the watermark and the status there", function()
      keep({ side = 0, watermark = 5, first = 0, last = 7 },
           { record(number(1), 0), watermark(10), record(number(2), 0) },
           { status(true), record(number(3), 0) })
      keep({ side = 1, first = 0, last = 7 }, { status(false), watermark(20), record(number(4), 0) },
           { record(number(5), 0) })
      local all = { "1", "2", "3", "4", "5" }
      local marks = { [0] = 5, 5, 10, 10, 20 }
      for n = 0, 5 do
        for _, want in ipairs { 1, 1 << 20 } do
          local rest, before, after = rest_after("hash", 0, 1, n, want)
          assert.equal(table.concat(all, " ", 1, n), before)
          assert.equal(table.concat(all, " ", n + 1), after)
          assert.equal(after, (restore(rest, "hash", 1)), "after " .. n)
          for _, h in ipairs(rest) do
            assert.equal("chk-1", h.directory)
            assert.equal(marks[n], h.watermark, "after " .. n)
            assert.equal(n == 3, h.idle)
          end
          assert.equal(n < 3 and 2 or n < 5 and 1 or 0, #rest)
        end
      end
    end)

    it("with the holder's key groups: a later restore gives out no record twice", function()
      local records = {}
      for i = 0, 23 do records[#records + 1] = record(number(i), i % 8) end
      keep({ first = 0, last = 7 }, records)
      for n = 0, 12 do
        local rest0, before0, after0 = rest_after("hash", 0, 2, n, 1)
        local rest1, _, after1 = rest_after("hash", 1, 2, 0, 1)
        local rest = { table.unpack(rest0) }
        for _, h in ipairs(rest1) do rest[#rest + 1] = h end
        for _, p in ipairs { 1, 2, 3, 8 } do
          local got = {}
          for word in (restore(rest, "hash", p)):gmatch "%S+" do got[#got + 1] = tonumber(word) end
          table.sort(got)
          local expected = {}
          for word in (after0 .. " " .. after1):gmatch "%S+" do expected[#expected + 1] = tonumber(word) end
          table.sort(expected)
          assert.same(expected, got)
        end
        assert.equal(n, select(2, before0:gsub("%S+", "")))
      end
    end)

    it("138. of one input, where all that the other one had is read", function()
      keep({ edge = 0, side = 1 }, { record(number(1)), record(number(2)) })
      keep({ edge = 1, side = 0, watermark = 4 }, { record(number(3)) }, { record(number(4)) })
      local function rest_of(n)
        local r = open { "rebalance", "rebalance" }
        read(r, 1, n)
        return probe.replay_rest(r, 0, "chk-1")
      end
      for n = 0, 4 do
        local rest = rest_of(n)
        local edges, all = {}, { "1", "2", "3@11", "4@11" }
        for i, h in ipairs(rest) do edges[i] = h.edge end
        assert.same(n < 2 and { 0, 1 } or n < 4 and { 1 } or {}, edges, "after " .. n)
        assert.equal(table.concat(all, " ", n + 1), (restore(rest, "rebalance", 1)):gsub("@%d+", "@11"))
      end
    end)

    it("whole, by the holder's number, on an edge without keys", function()
      keep({ receiver = 4, origin = 0, directory = "chk-9" }, { record(number(1)), record(number(2)) })
      local rest = rest_after("rebalance", 1, 3, 1, 1)
      assert.equal(1, #rest)
      assert.same({ 1, 0, "chk-9" }, { rest[1].receiver, rest[1].origin, rest[1].directory })
      assert.is_true(rest[1].skip > 0)
      local _, by = restore(rest, "rebalance", 2)
      assert.same({ [0] = "", [1] = "2" }, by)
    end)
  end)
end)
