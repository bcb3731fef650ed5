local probe = require "streamckpt.probe"
local tmp = require "support.tmp_folder"

local SPLIT, UNION, BROADCAST = 0, 1, 2

-- An operator whose subtasks reported these lists: {{name, mode, {items}}, ...} each, or nil.
local function with_lists(subtasks)
  local op = { uid = "op", subtasks = {} }
  for i = 1, subtasks.n or #subtasks do
    local lists = subtasks[i]
    local handles = lists and { { kind = 2, lists = probe.lists_encode(lists) } }
    op.subtasks[i] = { handles = handles or {} }
  end
  return op
end

-- What each new subtask gets of a list; {} where it is absent.
local function lists_of(op, parallelism, name)
  local plan = assert(probe.redistribute(op, parallelism, 128))
  local out = {}
  for i = 1, parallelism do out[i] = probe.lists_find(plan[i].lists, name) or {} end
  return out
end

local function split(...)
  local subtasks = {}
  for i, items in ipairs { ... } do subtasks[i] = { { "s", SPLIT, items } } end
  return with_lists(subtasks)
end

describe("redistribute: list states", function()
  it("039. split list 2 -> 3", function()
    assert.same({ { 1, 2 }, { 3, 4 }, { 5 } }, lists_of(split({ 1, 2, 3 }, { 4, 5 }), 3, "s"))
  end)

  it("040. split list 3 -> 2", function()
    assert.same({ { 1, 2, 3 }, { 4, 5, 6 } }, lists_of(split({ 1, 2 }, { 3, 4, 5 }, { 6 }), 2, "s"))
  end)

  it("041. split list 1 item -> 3", function()
    local op = split({ 7 })
    assert.same({ { 7 }, {}, {} }, lists_of(op, 3, "s"))
    local plan = probe.redistribute(op, 3, 128)
    assert.equal("", plan[2].lists)
    assert.is_nil((probe.lists_find(plan[2].lists, "s")))
  end)

  it("042. two split states rotate the start, in the order of their names", function()
    local op = with_lists { { { "t", SPLIT, { 10, 11, 12 } }, { "s", SPLIT, { 1, 2, 3 } } } }
    assert.same({ { 1 }, { 2 }, { 3 }, {} }, lists_of(op, 4, "s"))
    assert.same({ { 11 }, { 12 }, {}, { 10 } }, lists_of(op, 4, "t"))
  end)

  it("042. names are ordered by their bytes, and an even deal does not move the start", function()
    local op = with_lists { { { "ab", SPLIT, { 1 } }, { "a", SPLIT, { 2, 3 } },
                              { "B", SPLIT, { 4 } }, { "b", SPLIT, { 5 } } } }
    assert.same({ { 4 }, {} }, lists_of(op, 2, "B"))
    assert.same({ { 3 }, { 2 } }, lists_of(op, 2, "a"))   -- begins at 1, deals evenly
    assert.same({ {}, { 1 } }, lists_of(op, 2, "ab"))     -- so this begins at 1, too
    assert.same({ { 5 }, {} }, lists_of(op, 2, "b"))
  end)

  it("043. split state, parallelism unchanged", function()
    local op = split({ 1, 2, 3 }, {}, { 4 })
    assert.same({ { 1, 2, 3 }, {}, { 4 } }, lists_of(op, 3, "s"))
  end)

  it("044. split state down to 1", function()
    assert.same({ { 1, 2, 3, 4 } }, lists_of(split({ 1, 2 }, { 3, 4 }), 1, "s"))
  end)

  it("045. union list", function()
    local op = with_lists { { { "u", UNION, { 1, 2 } } }, { { "u", UNION, { 3 } } } }
    for p = 1, 3 do
      local want = {}
      for i = 1, p do want[i] = { 1, 2, 3 } end
      assert.same(want, lists_of(op, p, "u"))
    end
  end)

  it("046. a union list grows by what everybody writes, and only then", function()
    local items = { 1 }
    for round = 1, 3 do -- each of four subtasks writes all that it was given
      local all = { { "u", UNION, items } }
      items = lists_of(with_lists { all, all, all, all }, 4, "u")[1]
      assert.equal(4 ^ round, #items)
    end
    local own = { 1, 2, 3, 4 }
    for _ = 1, 3 do -- each writes its own item
      local subtasks = {}
      for i = 1, 4 do subtasks[i] = { { "u", UNION, { own[i] } } } end
      own = lists_of(with_lists(subtasks), 4, "u")[1]
      assert.same({ 1, 2, 3, 4 }, own)
    end
  end)

  it("047. broadcast state", function()
    local op = with_lists { { { "b", BROADCAST, { 1 } } }, { { "b", BROADCAST, { 2 } } } }
    assert.same({ { 1 } }, lists_of(op, 1, "b"))
    assert.same({ { 1 }, { 2 } }, lists_of(op, 2, "b"))
    assert.same({ { 1 }, { 2 }, { 1 } }, lists_of(op, 3, "b"))
  end)

  it("048. broadcast state with a null or empty subtask", function()
    local one = { { "b", BROADCAST, { 7, 8 } } }
    for _, other in ipairs { false, {}, { { "b", BROADCAST, {} } } } do
      for _, op in ipairs { with_lists { one, other }, with_lists { other, one } } do
        for p = 1, 3 do
          for _, got in ipairs(lists_of(op, p, "b")) do assert.same({ 7, 8 }, got) end
        end
      end
    end
  end)

  it("049. mixed modes in one operator", function()
    local first = { { "t-1", UNION, { 1 } }, { "t-2", UNION, { 2 } }, { "t-3", SPLIT, { 3, 4 } },
                    { "t-4", BROADCAST, { 5 } }, { "t-5", BROADCAST, { 6 } },
                    { "t-6", BROADCAST, { 7 } } }
    local second = { { "t-1", UNION, { 11 } }, { "t-4", BROADCAST, { 5 } },
                     { "t-5", BROADCAST, { 6 } }, { "t-6", BROADCAST, { 7 } } }
    local op = with_lists { first, second }
    for _, p in ipairs { 3, 1, 2 } do
      for i = 1, p do
        assert.same({ 1, 11 }, lists_of(op, p, "t-1")[i])
        assert.same({ 2 }, lists_of(op, p, "t-2")[i])
        for k, name in ipairs { "t-4", "t-5", "t-6" } do
          assert.same({ k + 4 }, lists_of(op, p, name)[i])
        end
      end
    end
    assert.same({ { 3 }, { 4 }, {} }, lists_of(op, 3, "t-3"))
    assert.same({ { 3, 4 } }, lists_of(op, 1, "t-3"))
    assert.same({ { 3, 4 }, {} }, lists_of(op, 2, "t-3"))
  end)

  it("248. each partition of a source goes to exactly one subtask", function()
    local op = split({ 0, 1, 2 }, { 3, 4, 5 })
    assert.same({ { 0, 1 }, { 2, 3 }, { 4 }, { 5 } }, lists_of(op, 4, "s"))
    assert.same({ { 0 }, { 1 }, { 2 }, { 3 }, { 4 }, { 5 }, {}, {} }, lists_of(op, 8, "s"))
  end)

  it("agrees with a naive model for random lists", function()
    local seed = os.time()
    math.randomseed(seed)
    for _ = 1, 200 do
      local old, new = math.random(1, 5), math.random(1, 5)
      local names, subtasks = { "a", "b", "c" }, {}
      for i = 1, old do
        subtasks[i] = {}
        for k, name in ipairs(names) do
          local items = {}
          for n = 1, math.random(0, 4) do items[n] = i * 100 + k * 10 + n end
          subtasks[i][k] = { name, SPLIT, items }
        end
      end
      local start = 0
      for k, name in ipairs(names) do
        local all, want = {}, {}
        for i = 1, old do table.move(subtasks[i][k][3], 1, #subtasks[i][k][3], #all + 1, all) end
        for i = 1, new do want[i] = {} end
        if old == new then
          for i = 1, old do want[i] = subtasks[i][k][3] end
        else
          local base, more, at = #all // new, #all % new, 1
          for i = 0, new - 1 do
            local n = base + (i < more and 1 or 0)
            table.move(all, at, at + n - 1, 1, want[(i + start) % new + 1])
            at = at + n
          end
          start = (start + more) % new
        end
        assert.same(want, lists_of(with_lists(subtasks), new, name), "seed " .. seed)
      end
    end
  end)

  it("refuses damaged bytes, and a list in two modes", function()
    for _, bytes in ipairs { "\x81", "\x90", "\x81\xa1s", "\x81\xa1s\x92\3\x90",
                             "\x81\xa1s\x92\0\x92\1",
                             "\x81\1\x92\0\x90", "\x81\xa1s\x91\0", "\xdf\xff\xff\xff\xff" } do
      local op = { uid = "counts", subtasks = { { handles = { { kind = 2, lists = bytes } } } } }
      local plan, message, code = probe.redistribute(op, 2, 128)
      assert.is_nil(plan)
      assert.equal("ECORRUPT", code)
      assert.matches("counts", message, 1, true)
      assert.equal("ECORRUPT", select(3, probe.lists_find(bytes, "x")))
    end
    local op = with_lists { { { "s", SPLIT, { 1 } } }, { { "s", UNION, { 2 } } } }
    assert.equal("ECORRUPT", select(3, probe.redistribute(op, 2, 128)))
  end)
end)

-- An operator with one keyed file for each subtask, over the reference's ranges.
local function with_keyed(parallelism, max, watermarks)
  local op = { uid = "op", max_parallelism = max, subtasks = {} }
  for i = 0, parallelism - 1 do
    local first = (i * max + parallelism - 1) // parallelism
    local last = ((i + 1) * max - 1) // parallelism
    op.subtasks[i + 1] = {
      watermark = watermarks and watermarks[i + 1],
      forwarded = watermarks and watermarks[i + 1] - 1,
      handles = { { kind = 1, file = "f" .. i, length = 100, first = first, last = last } } }
  end
  return op
end

describe("redistribute: keyed state", function()
  it("241. every group goes to exactly one subtask, in order of the old ones", function()
    local max = 128
    for old = 1, 8 do
      for new = 1, 8 do
        local plan = assert(probe.redistribute(with_keyed(old, max), new, max))
        local next_group = 0
        for i = 1, new do
          for _, part in ipairs(plan[i].keyed) do
            assert.equal(next_group, part.first)
            assert.equal("f" .. part.first * old // max, part.file)
            next_group = part.last + 1
          end
          assert.equal((i * max - 1) // new + 1, next_group)
        end
        assert.equal(max, next_group)
      end
    end
  end)

  it("242. from [0..63] and [64..127], subtask 1 of 3 gets [43..85] and nothing else", function()
    local plan = probe.redistribute(with_keyed(2, 128), 3, 128)
    local parts = plan[2].keyed
    assert.equal(2, #parts)
    assert.same({ "f0", 43, 63 }, { parts[1].file, parts[1].first, parts[1].last })
    assert.same({ "f1", 64, 85 }, { parts[2].file, parts[2].first, parts[2].last })
  end)

  it("009. the widest max_parallelism does not overflow", function()
    local plan = probe.redistribute(with_keyed(1, 32768), 3, 32768)
    local got = {}
    for i = 1, 3 do got[i] = { plan[i].keyed[1].first, plan[i].keyed[1].last } end
    assert.same({ { 0, 10922 }, { 10923, 21845 }, { 21846, 32767 } }, got)
  end)

  it("carries each old subtask's folder, and its watermark for its groups", function()
    local op = with_keyed(2, 128, { 1000, 2000 })
    op.subtasks[1].directory = "chk-3"
    op.subtasks[2].handles = {} -- nothing left to list, but its windows have fired
    local plan = probe.redistribute(op, 3, 128)
    assert.same({ { first = 0, last = 42, watermark = 1000, file = "f0", directory = "chk-3" } },
                plan[1].keyed)
    assert.same({ { first = 43, last = 63, watermark = 1000 },
                  { first = 64, last = 85, watermark = 2000 } }, plan[2].groups)
    assert.same({ { first = 86, last = 127, watermark = 2000 } }, plan[3].groups)
    assert.same({}, plan[3].keyed)
  end)

  it("244. keyed state and another max_parallelism: refused with both numbers", function()
    for _, max in ipairs { 256, 64 } do
      local plan, message, code = probe.redistribute(with_keyed(2, 128), 2, max)
      assert.is_nil(plan)
      assert.equal("ESTATE", code)
      assert.matches("128", message, 1, true)
      assert.matches(tostring(max), message, 1, true)
    end
    local op = split({ 1 }, { 2 })
    op.max_parallelism = 128
    local plan = assert(probe.redistribute(op, 2, 256))
    assert.same({ 2 }, probe.lists_find(plan[2].lists, "s"))
    assert.same({}, plan[1].groups)
  end)

  it("245. each operator of a chain answers for itself", function()
    assert(probe.redistribute(with_keyed(2, 128), 2, 128))
    assert.equal("ESTATE", select(3, probe.redistribute(with_keyed(2, 256), 2, 128)))
  end)

  it("247. parallelism above max_parallelism is refused with both numbers", function()
    local stateless = { uid = "op", max_parallelism = 4, subtasks = { {} } }
    for _, op in ipairs { with_keyed(2, 4), stateless } do
      local plan, message, code = probe.redistribute(op, 5, 4)
      assert.is_nil(plan)
      assert.equal("ESTATE", code)
      assert.matches("5", message, 1, true)
      assert.matches("4", message, 1, true)
    end
  end)
end)

describe("redistribute: keyed files", function()
  local dir, s
  before_each(function() dir = tmp.make(); s = probe.storage_new(false) end)
  after_each(tmp.remove)

  -- Snapshot of the stores of `n` subtasks, each a list of rows; an operator of handles.
  local function snapshot(stores, round)
    local n = #stores
    local op = { uid = "op", max_parallelism = 128, subtasks = {} }
    for i, rows in ipairs(stores) do
      local file = ("%d-%d"):format(round, i)
      local h = assert(probe.keyed_write(s, dir .. "/" .. file, "op", ((i - 1) * 128 + n - 1) // n,
                                         (i * 128 - 1) // n, { { name = "n", kind = 1 } }, rows))
      h.file = file
      op.subtasks[i] = { handles = { h } }
    end
    return op
  end

  it("241. keyed grow and shrink 4, 3, 7, 1, 4: every key once, in its owner only", function()
    local all = {}
    for i = 0, 9999 do
      all[i + 1] = { group = i % 128, state = 0, key = ("%05d"):format(i), namespace = "",
                     value = tostring(i) }
    end
    table.sort(all, function(a, b)
      if a.group ~= b.group then return a.group < b.group end
      return a.key < b.key
    end)
    local stores = { {}, {}, {}, {} }
    for _, row in ipairs(all) do table.insert(stores[row.group * 4 // 128 + 1], row) end
    for round, p in ipairs { 3, 7, 1, 4 } do
      local op = snapshot(stores, round)
      local plan = assert(probe.redistribute(op, p, 128))
      local seen = {}
      stores = {}
      for i = 1, p do
        stores[i] = {}
        for _, part in ipairs(plan[i].keyed) do
          local handle
          for _, t in ipairs(op.subtasks) do
            if t.handles[1].file == part.file then handle = t.handles[1] end
          end
          for _, row in ipairs((assert(probe.keyed_read(s, dir, handle, part.first, part.last)))) do
            assert.equal(i - 1, row.group * p // 128)
            table.insert(stores[i], row)
            table.insert(seen, row)
          end
        end
      end
      assert.same(all, seen)
    end
  end)
end)

describe("redistribute: watermarks and ends", function()
  local op = { max_parallelism = 8, subtasks = {
    { watermark = 30, forwarded = 29, idle = true },
    { watermark = 10, forwarded = 9, idle = false },
    { watermark = 20, forwarded = 5, idle = true } } }

  it("keeps each subtask's own where the parallelism is unchanged", function()
    local plan = probe.redistribute(op, 3, 8)
    for i = 1, 3 do
      assert.equal(op.subtasks[i].watermark, plan[i].watermark)
      assert.equal(op.subtasks[i].forwarded, plan[i].forwarded)
      assert.equal(op.subtasks[i].idle, plan[i].idle)
    end
  end)

  it("takes the least of all otherwise, and is idle only if all were", function()
    local plan = probe.redistribute(op, 2, 8)
    for i = 1, 2 do
      assert.equal(10, plan[i].watermark)
      assert.equal(5, plan[i].forwarded)
      assert.is_false(plan[i].idle)
    end
    for _, level in ipairs { probe.redistribute(op, 3, 8, true)[1], probe.redistribute(op, 3, 8, true)[3] } do
      assert.same({ 10, 5, false }, { level.watermark, level.forwarded, level.idle }) -- told to level them
    end
    local idle = { subtasks = { { watermark = 1, idle = true }, { watermark = 2, idle = true } } }
    assert.is_true(probe.redistribute(idle, 1, 128)[1].idle)
  end)

  it("is finished only if every old subtask had ended or finished", function()
    local function finished(...)
      local old = { subtasks = {} }
      for i, e in ipairs { ... } do old.subtasks[i] = { ["end"] = e } end
      return probe.redistribute(old, 1, 128).finished
    end
    assert.is_true(finished(1, 2, 2))
    assert.is_false(finished(2, 0, 1))
    assert.is_false(finished(0))
  end)
end)
