local probe = require "streamckpt.probe"
local temp_dir = require "support.temp_dir"

local VALUE, LIST, MAP = 1, 2, 3

describe("heap backend", function()
  local dir
  setup(function() dir = temp_dir.create() end)
  teardown(function() temp_dir.remove(dir) end)

  local function window(first, last)
    local h = probe.heap_new("counts", first or 0, last or 127)
    return h, probe.heap_declare(h, "v", VALUE), probe.heap_declare(h, "m", MAP)
  end

  local function drain(h)
    for _ = 1, 100000 do
      if not probe.heap_step(h, 100) then return end
    end
    error("folding does not end")
  end

  local files = 0
  local function write(h, snap)
    files = files + 1
    return assert(probe.heap_write(h, snap, dir, "state-" .. files))
  end

  -- Freeze, write and finish one snapshot.
  local function snapshot(h, id)
    probe.heap_freeze(h, id)
    drain(h)
    local snap, got = probe.heap_ready(h)
    assert.equal(id, got)
    local handle = write(h, snap)
    probe.heap_snapshot_done(h, snap)
    drain(h)
    return handle
  end

  local function rows_by_key(handle)
    local by_key = {}
    for _, row in ipairs((probe.heap_rows(handle, dir))) do by_key[row.key] = row.value end
    return by_key
  end

  describe("values", function()
    it("021. value default and clear", function()
      local h, v = window()
      assert.is_nil(probe.heap_get(h, v, 0, "k", ""))
      probe.heap_put(h, v, 0, "k", "", "\5")
      assert.equal("\5", probe.heap_get(h, v, 0, "k", ""))
      probe.heap_clear(h, v, 0, "k", "")
      assert.is_nil(probe.heap_get(h, v, 0, "k", ""))
      assert.equal(0, (probe.heap_usage(h)))
    end)

    it("022. state is scoped by key and namespace", function()
      local h, v = window()
      probe.heap_put(h, v, 0, "k1", "n1", "1")
      probe.heap_put(h, v, 0, "k1", "n2", "2")
      probe.heap_put(h, v, 0, "k2", "n1", "3")
      probe.heap_clear(h, v, 0, "k1", "n1")
      assert.is_nil(probe.heap_get(h, v, 0, "k1", "n1"))
      assert.equal("2", probe.heap_get(h, v, 0, "k1", "n2"))
      assert.equal("3", probe.heap_get(h, v, 0, "k2", "n1"))
    end)

    it("005. colliding keys stay separate", function()
      local aa, bb = "\xa2Aa", "\xa2BB"
      assert.equal(108, probe.heap_group(aa, 128))
      assert.equal(108, probe.heap_group(bb, 128))
      local h, v = window()
      probe.heap_put(h, v, 108, aa, "", "\1")
      probe.heap_put(h, v, 108, bb, "", "\2")
      local handle = snapshot(h, 1)
      local restored, v2 = window()
      assert(probe.heap_load(restored, dir, handle, 0, 127))
      assert.equal("\1", probe.heap_get(restored, v2, 108, aa, ""))
      assert.equal("\2", probe.heap_get(restored, v2, 108, bb, ""))
    end)

    it("takes back the bytes that it handed out", function()
      local h, v = window()
      probe.heap_put(h, v, 0, "k", "", "own")
      assert(probe.heap_put_own(h, v, 0, "k", ""))
      probe.heap_freeze(h, 1)
      assert(probe.heap_put_own(h, v, 0, "k", "")) -- from the base into the delta
      probe.heap_abort(h, 1)
      assert(probe.heap_put_own(h, v, 0, "k", "")) -- and home
      assert.equal("own", probe.heap_get(h, v, 0, "k", ""))
    end)

    it("are replaced where they were found, while a snapshot keeps what it has still to read", function()
      local h, v = window()
      assert.is_nil(probe.heap_replace(h, v, 0, "k", "", "one"))
      assert.equal("one", probe.heap_replace(h, v, 0, "k", "", "two"))
      probe.heap_freeze(h, 1)
      assert.equal("two", probe.heap_replace(h, v, 0, "k", "", "three"))
      assert.equal("three", probe.heap_replace(h, v, 0, "k", "", ("four"):rep(100)))
      local snap = probe.heap_ready(h)
      local handle = write(h, snap)
      probe.heap_snapshot_done(h, snap)
      assert.equal("two", probe.heap_rows(handle, dir)[1].value)
      assert.equal(("four"):rep(100), probe.heap_get(h, v, 0, "k", ""))
    end)
  end)

  describe("maps", function()
    it("026. map basic", function()
      local h, _, m = window()
      probe.heap_map_put(h, m, 0, "k", "", "a", "1")
      probe.heap_map_put(h, m, 0, "k", "", "b", "2")
      assert.is_nil(probe.heap_map_get(h, m, 0, "k", "", "c"))
      probe.heap_map_remove(h, m, 0, "k", "", "a")
      assert.is_nil(probe.heap_map_get(h, m, 0, "k", "", "a"))
      assert.same({ "b", "2" }, { probe.heap_map_first(h, m, 0, "k", "") })
      assert.is_nil((probe.heap_map_first(h, m, 0, "k", "", "c")))
      probe.heap_clear(h, m, 0, "k", "")
      assert.is_nil((probe.heap_map_first(h, m, 0, "k", "")))
      assert.equal(0, (probe.heap_usage(h)))
    end)

    it("028. map keys that share a byte prefix", function()
      local h, _, m = window()
      for _, key in ipairs { "key", "key2", "key|x" } do
        probe.heap_map_put(h, m, 0, key, "", "item", key)
      end
      probe.heap_clear(h, m, 0, "key", "")
      assert.is_nil(probe.heap_map_get(h, m, 0, "key", "", "item"))
      assert.equal("key2", probe.heap_map_get(h, m, 0, "key2", "", "item"))
      assert.equal("key|x", probe.heap_map_get(h, m, 0, "key|x", "", "item"))
    end)

    it("iterates over the map as it was at the start", function()
      for _, overlay in ipairs { "none", "active", "folding" } do
        local h, _, m = window()
        for _, k in ipairs { "b", "d", "f" } do probe.heap_map_put(h, m, 0, "k", "", k, "base") end
        local snap
        if overlay ~= "none" then
          probe.heap_freeze(h, 1)
          snap = probe.heap_ready(h)
          probe.heap_map_put(h, m, 0, "k", "", "c", "delta")
          probe.heap_map_remove(h, m, 0, "k", "", "d")
        end
        if overlay == "folding" then probe.heap_snapshot_done(h, snap) end
        local it = probe.heap_iterate(h, m, 0, "k", "")
        assert.same({ "b", "base" }, { probe.heap_next(it) })
        probe.heap_map_put(h, m, 0, "k", "", "bb", "later")
        probe.heap_map_put(h, m, 0, "k", "", "f", "later")
        probe.heap_step(h, 1)
        probe.heap_clear(h, m, 0, "k", "")
        if overlay == "none" then
          assert.same({ "d", "base" }, { probe.heap_next(it) })
        else
          assert.same({ "c", "delta" }, { probe.heap_next(it) })
        end
        assert.same({ "f", "base" }, { probe.heap_next(it) })
        assert.is_nil((probe.heap_next(it)))
        assert.is_nil((probe.heap_next(it)))
        probe.heap_done_iterating(it)
      end
    end)

    it("brings a cleared map home before its first new entry", function()
      for _, already in ipairs { false, true } do -- the delta also holds an entry of its own
        local h, _, m = window()
        probe.heap_map_put(h, m, 0, "k", "", "old", "1")
        probe.heap_freeze(h, 1)
        probe.heap_clear(h, m, 0, "k", "")
        if already then probe.heap_map_put(h, m, 0, "k", "", "newer", "2") end
        probe.heap_abort(h, 1) -- from here on writes go home
        probe.heap_map_put(h, m, 0, "k", "", "new", "3")
        for _ = 1, 2 do
          assert.is_nil(probe.heap_map_get(h, m, 0, "k", "", "old"))
          assert.equal("3", probe.heap_map_get(h, m, 0, "k", "", "new"))
          assert.equal(already and "2" or nil, probe.heap_map_get(h, m, 0, "k", "", "newer"))
          drain(h)
        end
        assert.equal(already and 2 or 1, (probe.heap_usage(h)))
      end
    end)

    it("may be emptied by the keys that its iterator hands out", function()
      for _, overlay in ipairs { false, true } do
        local h, _, m = window()
        for i = 1, 40 do probe.heap_map_put(h, m, 0, "k", "", "e" .. i, "v") end
        probe.heap_freeze(h, 1)
        for i = 30, 50 do probe.heap_map_put(h, m, 0, "k", "", "e" .. i, "w") end
        if not overlay then probe.heap_abort(h, 1) end
        assert.equal(50, probe.heap_map_remove_all(h, m, 0, "k", ""))
        assert.is_nil((probe.heap_map_first(h, m, 0, "k", "")))
        probe.heap_abort(h, 1)
        drain(h)
        assert.equal(0, (probe.heap_usage(h)))
      end
    end)
  end)

  describe("declaring", function()
    it("gives the same index for the same name and kind", function()
      local h, v, m = window()
      assert.equal(v, probe.heap_declare(h, "v", VALUE))
      assert.equal(m, probe.heap_declare(h, "m", MAP))
      assert.not_equal(v, m)
    end)

    it("refuses a name that is declared with two kinds", function()
      local h = window()
      local ok, message, code = probe.heap_declare(h, "v", LIST)
      assert.is_nil(ok)
      assert.equal("ESTATE", code)
      local expected = 'operator "counts" declares state "v" twice, as value and as list'
      assert.truthy(message:find(expected, 1, true))
    end)

    it("refuses a value where a map is and the other way round", function()
      local h, v, m = window()
      local _, message, code = probe.heap_put(h, m, 0, "k", "", "1")
      assert.equal("ESTATE", code)
      local expected = 'state "m" of operator "counts" is map and is used as a value'
      assert.truthy(message:find(expected, 1, true))
      assert.equal("ESTATE", select(3, probe.heap_map_get(h, v, 0, "k", "", "a")))
      assert.equal("ESTATE", select(3, probe.heap_map_put(h, v, 0, "k", "", "a", "1")))
      assert.equal("ESTATE", select(3, probe.heap_map_remove(h, v, 0, "k", "", "a")))
      assert.equal("ESTATE", select(3, probe.heap_get(h, m, 0, "k", "")))
      assert.equal("ESTATE", select(3, probe.heap_replace(h, m, 0, "k", "", "1")))
    end)

    it("036. same state name, other kind", function()
      local h = probe.heap_new("counts", 0, 127)
      local s = probe.heap_declare(h, "s", VALUE)
      probe.heap_put(h, s, 0, "k", "", "1")
      local handle = snapshot(h, 1)

      local restored = probe.heap_new("counts", 0, 127)
      assert(probe.heap_load(restored, dir, handle, 0, 127))
      local _, message, code = probe.heap_declare(restored, "s", MAP)
      assert.equal("ESTATE", code)
      for _, word in ipairs { '"counts"', '"s"', "value", "map" } do
        assert.truthy(message:find(word, 1, true), message)
      end

      local other = probe.heap_new("counts", 0, 127) -- declared first, loaded afterwards
      probe.heap_declare(other, "s", MAP)
      _, message, code = probe.heap_load(other, dir, handle, 0, 127)
      assert.equal("ESTATE", code)
      for _, word in ipairs { '"counts"', '"s"', "value", "map" } do
        assert.truthy(message:find(word, 1, true), message)
      end
    end)

    it("037. state declared late", function()
      local h = probe.heap_new("counts", 0, 127)
      local a, b = probe.heap_declare(h, "a", VALUE), probe.heap_declare(h, "b", MAP)
      probe.heap_put(h, a, 1, "k", "", "1")
      probe.heap_map_put(h, b, 1, "k", "n", "x", "2")
      local first = snapshot(h, 1)

      local second_window = probe.heap_new("counts", 0, 127)
      assert(probe.heap_load(second_window, dir, first, 0, 127))
      local a2 = probe.heap_declare(second_window, "a", VALUE)
      assert.equal("1", probe.heap_get(second_window, a2, 1, "k", ""))
      local second = snapshot(second_window, 2)

      local third = probe.heap_new("counts", 0, 127)
      assert(probe.heap_load(third, dir, second, 0, 127))
      local b3 = probe.heap_declare(third, "b", MAP)
      assert.equal("2", probe.heap_map_get(third, b3, 1, "k", "n", "x"))
      local _, names = probe.heap_rows(second, dir)
      assert.same({ "a", "b" }, names)
    end)
  end)

  describe("snapshots", function()
    it("034. snapshot isolation", function()
      local h, v = window()
      local expected = {}
      for i = 1, 1000 do
        expected["k" .. i] = tostring(i)
        probe.heap_put(h, v, i % 128, "k" .. i, "", tostring(i))
      end
      probe.heap_freeze(h, 7)
      local snap, id = probe.heap_ready(h)
      assert.equal(7, id)
      for i = 1, 1000 do
        probe.heap_put(h, v, i % 128, "k" .. i, "", "0")
        if i % 2 == 0 then probe.heap_clear(h, v, i % 128, "k" .. i, "") end
      end
      local handle = write(h, snap)
      assert.same(expected, rows_by_key(handle))
      probe.heap_snapshot_done(h, snap)
      for _ = 1, 2 do
        for i = 1, 1000 do
          assert.equal(i % 2 == 1 and "0" or nil, probe.heap_get(h, v, i % 128, "k" .. i, ""))
        end
        drain(h)
      end
      assert.equal(500, (probe.heap_usage(h)))
    end)

    it("isolates a snapshot from writes beside it, by another thread", function()
      local h, v, m = window()
      local keys, expected = 8000, {}
      local function map_of(i) return i % 200 % 128, "m" .. i % 200, "", tostring(i) end
      for i = 0, keys - 1 do
        expected["k" .. i] = "was " .. i
        probe.heap_put(h, v, i % 128, "k" .. i, "", "was " .. i)
        local group, key, space, map_key = map_of(i)
        expected[key .. " " .. map_key] = "was " .. i
        probe.heap_map_put(h, m, group, key, space, map_key, "was " .. i)
      end
      probe.heap_freeze(h, 7)
      local snap = probe.heap_ready(h)
      local handle, passes = probe.heap_write_beside(h, snap, dir, "beside", v, m, keys)
      local seen = {}
      for _, row in ipairs((probe.heap_rows(handle, dir))) do
        local name = row.map_key and row.key .. " " .. row.map_key or row.key
        assert.is_nil(seen[name])
        seen[name] = row.value
      end
      assert.same(expected, seen)
      probe.heap_snapshot_done(h, snap)
      drain(h)
      -- What the last pass did, as probe_cells.c says it.
      local left, maps = 0, {}
      for i = 0, keys - 1 do
        local value = ("%d:%s"):format(passes, (" "):rep(i * passes % 20))
        if (i * 31 + passes) % 5 == 0 then value = nil else left = left + 1 end
        assert.equal(value, probe.heap_get(h, v, i % 128, "k" .. i, ""))
        if (i + passes) % 997 == 0 then maps[i % 200] = {}
        elseif (i * 31 + passes) % 5 ~= 0 then
          maps[i % 200] = maps[i % 200] or {}
          maps[i % 200][i] = tostring(passes)
        end
      end
      for i = 0, keys - 1 do
        local value = (maps[i % 200] or {})[i]
        left = left + (value and 1 or 0)
        assert.equal(value, probe.heap_map_get(h, m, map_of(i)))
      end
      assert.equal(left, (probe.heap_usage(h)))
    end)

    it("035. restore discards later writes", function()
      local h, v = window()
      probe.heap_put(h, v, 1, "k1", "", "1")
      local handle = snapshot(h, 1)
      probe.heap_put(h, v, 1, "k1", "", "2")
      probe.heap_put(h, v, 2, "k2", "", "9")
      local restored, v2 = window()
      assert(probe.heap_load(restored, dir, handle, 0, 127))
      assert.equal("1", probe.heap_get(restored, v2, 1, "k1", ""))
      assert.is_nil(probe.heap_get(restored, v2, 2, "k2", ""))
    end)

    it("freezes without touching an entry, however many there are", function()
      local growth = {}
      for i, n in ipairs { 600, 5000 } do
        local h, v = window()
        for k = 1, n do probe.heap_put(h, v, k % 128, "k" .. k, "", "v") end
        local entries, bytes = probe.heap_usage(h)
        probe.heap_freeze(h, 1)
        for k = 1, n do probe.heap_put(h, v, k % 128, "k" .. k, "", "w") end
        local entries2, bytes2 = probe.heap_usage(h)
        probe.heap_freeze(h, 2)
        local entries3, bytes3 = probe.heap_usage(h)
        assert.equal(n, entries)
        assert.equal(2 * n, entries2)
        assert.equal(2 * n, entries3)
        assert.is_true(bytes < bytes2)
        growth[i] = bytes3 - bytes2
      end
      assert.equal(growth[1], growth[2])
    end)

    it("writes cuts one after another, each when what is older has been folded", function()
      local h, v = window()
      probe.heap_put(h, v, 0, "k", "", "1")
      probe.heap_freeze(h, 1)
      local first = probe.heap_ready(h)
      assert.is_nil(probe.heap_ready(h)) -- once each
      probe.heap_put(h, v, 0, "k", "", "2")
      probe.heap_freeze(h, 2)
      probe.heap_put(h, v, 0, "k", "", "3")
      probe.heap_freeze(h, 3)
      probe.heap_put(h, v, 0, "k", "", "4")
      assert.is_false(probe.heap_step(h, 100)) -- nothing folds into what is being written
      assert.is_nil(probe.heap_ready(h))
      local one = write(h, first)
      probe.heap_snapshot_done(h, first)
      local seen = { rows_by_key(one).k }
      for id = 2, 3 do
        drain(h)
        local snap, got = probe.heap_ready(h)
        assert.equal(id, got)
        seen[id] = rows_by_key(write(h, snap)).k
        probe.heap_snapshot_done(h, snap)
      end
      assert.same({ "1", "2", "3" }, seen)
      assert.equal("4", probe.heap_get(h, v, 0, "k", ""))
      drain(h)
      assert.equal("4", probe.heap_get(h, v, 0, "k", ""))
      assert.equal(1, (probe.heap_usage(h)))
    end)

    it("lets an aborted cut leave at once, and what waited for it go on", function()
      local h, v = window()
      probe.heap_freeze(h, 1)
      local first = probe.heap_ready(h)
      probe.heap_put(h, v, 0, "k", "", "2")
      probe.heap_freeze(h, 2)
      probe.heap_put(h, v, 0, "k", "", "3")
      probe.heap_freeze(h, 3)
      probe.heap_abort(h, 2)
      probe.heap_abort(h, 1)  -- the pool has it: it stays until the pool is done
      probe.heap_abort(h, 99) -- unknown
      assert.is_nil(probe.heap_ready(h))
      write(h, first)
      probe.heap_snapshot_done(h, first)
      drain(h)
      local snap, id = probe.heap_ready(h)
      assert.equal(3, id)
      assert.equal("3", rows_by_key(write(h, snap)).k)
      probe.heap_snapshot_done(h, snap)
    end)

    it("writes to the base again when the only cut was aborted before it began", function()
      local h, v = window()
      probe.heap_put(h, v, 0, "a", "", "1")
      probe.heap_freeze(h, 1)
      probe.heap_put(h, v, 0, "a", "", "2")
      probe.heap_abort(h, 1)
      assert.is_nil(probe.heap_ready(h))
      probe.heap_put(h, v, 0, "a", "", "3") -- home, before any step
      assert.is_false(probe.heap_step(h, 10))
      assert.equal("3", probe.heap_get(h, v, 0, "a", ""))
      assert.equal(1, (probe.heap_usage(h)))
    end)

    it("makes no file of nothing", function()
      local h = window()
      local handle = snapshot(h, 1)
      assert.equal(0, (probe.heap_handle(handle)))
      local restored = window()
      assert(probe.heap_load(restored, dir, handle, 0, 127))
      assert.equal(0, (probe.heap_usage(restored)))
    end)

    it("makes equal bytes of equal state, in whatever order it came about", function()
      local sums = {}
      for turn = 1, 2 do
        local h = probe.heap_new("counts", 0, 127)
        local names = turn == 1 and { "a", "b" } or { "b", "a" }
        local index = {}
        for _, name in ipairs(names) do
          index[name] = probe.heap_declare(h, name, name == "a" and VALUE or MAP)
        end
        for i = 1, 200 do
          local k = turn == 1 and i or 201 - i
          probe.heap_put(h, index.a, k % 128, "k" .. k, "", "v" .. k)
          probe.heap_map_put(h, index.b, k % 128, "k" .. k, "n", "x" .. k, "v" .. k)
        end
        sums[turn] = { probe.heap_handle(snapshot(h, 1)) }
      end
      assert.equal(sums[1][1], sums[2][1])
      assert.equal(sums[1][2], sums[2][2])
    end)

    it("orders rows by state, key, namespace and map key, whatever keys have in common", function()
      math.randomseed(7)
      local makers = {
        function(i) return tostring(i) end,                                -- of several lengths
        function(i) return ("the same for all of them, %d"):format(i) end,
        function(i) return ("a"):rep(i % 100) .. ("\0"):rep(i // 100) end, -- prefixes of others
        function(i) return ("%08d behind eight bytes %d"):format(i % 3, i) end,
        function(i) return string.pack(">I8", i * 0x9E3779B97F4A7C15) end,
        function() return "one key" end,                                   -- and many namespaces
      }
      for _, key in ipairs(makers) do
        local h = probe.heap_new("counts", 5, 5)
        local b, m = probe.heap_declare(h, "b", VALUE), probe.heap_declare(h, "m", MAP)
        local a, written = probe.heap_declare(h, "a", VALUE), 0
        for i = 1, 1000 do
          local space = i % 3 == 0 and "" or ("n%d"):format(math.random(1000000))
          if probe.heap_get(h, i % 2 == 0 and a or b, 5, key(i), space) == nil then written = written + 1 end
          probe.heap_put(h, i % 2 == 0 and a or b, 5, key(i), space, "v")
          if i % 10 == 0 and not probe.heap_map_get(h, m, 5, key(i), "n", "x" .. i) then
            probe.heap_map_put(h, m, 5, key(i), "n", "x" .. i, "v")
            written = written + 1
          end
        end
        local rows = probe.heap_rows(snapshot(h, 1), dir)
        assert.equal(written, #rows)
        local function less(x, y)
          for _, field in ipairs { "state", "key", "space", "map_key" } do
            local p, q = x[field] or "", y[field] or ""
            if p ~= q then return p < q end
          end
          return false
        end
        for i = 2, #rows do assert.is_true(less(rows[i - 1], rows[i])) end
      end
    end)

    it("frees a large map that folding cleared in steps", function()
      local h, _, m = window()
      for i = 1, 1000 do probe.heap_map_put(h, m, 0, "k", "", "e" .. i, "v") end
      probe.heap_freeze(h, 1)
      local snap = probe.heap_ready(h)
      probe.heap_clear(h, m, 0, "k", "")
      probe.heap_snapshot_done(h, snap)
      local steps = 0
      while probe.heap_step(h, 10) do steps = steps + 1 end
      assert.is_true(steps >= 99, "steps: " .. steps)
      assert.equal(0, (probe.heap_usage(h)))
    end)

    it("fails with the file's name where the snapshot cannot be written", function()
      local h, v = window()
      probe.heap_put(h, v, 0, "k", "", "1")
      probe.heap_freeze(h, 1)
      local snap = probe.heap_ready(h)
      local ok, message, code = probe.heap_write(h, snap, dir .. "/absent", "state")
      assert.is_nil(ok)
      assert.equal("ENOTFOUND", code)
      assert.truthy(message:find("/absent/", 1, true), message)
      probe.heap_snapshot_done(h, snap)
      drain(h)
      assert.equal("1", probe.heap_get(h, v, 0, "k", ""))
    end)
  end)

  describe("loading", function()
    it("fails where the file is damaged", function()
      local h, v = window()
      probe.heap_put(h, v, 0, "k", "", "1")
      local handle = snapshot(h, 1)
      local _, _, name = probe.heap_handle(handle)
      local f = assert(io.open(dir .. "/" .. name, "r+b"))
      f:seek("end", -1)
      f:write("\xee")
      f:close()
      local ok, _, code = probe.heap_load(window(), dir, handle, 0, 127)
      assert.is_nil(ok)
      assert.equal("ECORRUPT", code)
    end)

    it("241. keyed grow and shrink", function()
      local function key(i) return "\xcd" .. string.pack(">I2", i) end -- msgpack uint16
      local function owner_windows(p)
        local ws = {}
        for i = 0, p - 1 do
          local first, last = probe.heap_range(128, p, i)
          local h, v = window(first, last)
          ws[#ws + 1] = { h = h, v = v, first = first, last = last }
        end
        return ws
      end
      local n = 10000
      local ws = owner_windows(4)
      for i = 1, n do
        local group = probe.heap_group(key(i), 128)
        for _, w in ipairs(ws) do
          if group >= w.first and group <= w.last then
            probe.heap_put(w.h, w.v, group, key(i), "", tostring(i))
          end
        end
      end
      for id, p in ipairs { 3, 7, 1, 4 } do
        local handles = {}
        for i, w in ipairs(ws) do handles[i] = snapshot(w.h, id) end
        local next_ws = owner_windows(p)
        local total = 0
        for _, w in ipairs(next_ws) do
          for i, handle in ipairs(handles) do
            local first, last = math.max(w.first, ws[i].first), math.min(w.last, ws[i].last)
            if first <= last then assert(probe.heap_load(w.h, dir, handle, first, last)) end
          end
          total = total + (probe.heap_usage(w.h))
        end
        assert.equal(n, total)
        ws = next_ws
        for i = 1, n, 97 do
          local group, found = probe.heap_group(key(i), 128), 0
          for _, w in ipairs(ws) do
            if group >= w.first and group <= w.last then
              found = found + 1
              assert.equal(tostring(i), probe.heap_get(w.h, w.v, group, key(i), ""))
            end
          end
          assert.equal(1, found)
        end
      end
    end)

    it("reads no group outside of the window, even if the part says so", function()
      local h, v = window()
      for g = 0, 127 do probe.heap_put(h, v, g, "k" .. g, "", "v") end
      local handle = snapshot(h, 1)
      local narrow = window(43, 85)
      assert(probe.heap_load(narrow, dir, handle, 0, 127))
      assert.equal(85 - 43 + 1, (probe.heap_usage(narrow)))
      local rows = probe.heap_rows(snapshot(narrow, 2), dir)
      for _, row in ipairs(rows) do assert.is_true(row.group >= 43 and row.group <= 85) end
    end)

    it("243. raw keyed stream with unwritten key groups", function()
      local h, v = window()
      probe.heap_put(h, v, 3, "a", "", "1")
      probe.heap_put(h, v, 90, "b", "", "2")
      local handle = snapshot(h, 1)
      assert.equal(2, (select(4, probe.heap_handle(handle))))
      local found = 0
      for i = 0, 2 do
        local first, last = probe.heap_range(128, 3, i)
        local w = window(first, last)
        assert(probe.heap_load(w, dir, handle, first, last))
        found = found + (probe.heap_usage(w))
      end
      assert.equal(2, found)
    end)
  end)
end)
