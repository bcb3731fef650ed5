local probe = require "streamckpt.probe"

describe("table", function()
  it("keeps entries apart by state, group, key and namespace", function()
    local t = probe.table_new()
    local places = { { 0, 1, "k", "" }, { 1, 1, "k", "" }, { 0, 2, "k", "" }, { 0, 1, "k2", "" },
                     { 0, 1, "k", "n" }, { 0, 1, "", "kn" }, { 0, 1, "kn", "" } }
    for i, p in ipairs(places) do probe.table_put(t, p[1], p[2], p[3], p[4], "v" .. i) end
    for i, p in ipairs(places) do assert.equal("v" .. i, probe.table_get(t, table.unpack(p))) end
    assert.equal(#places, (probe.table_size(t)))
    assert.is_true(probe.table_remove(t, 0, 1, "k", ""))
    assert.is_false(probe.table_remove(t, 0, 1, "k", ""))
    assert.is_nil(probe.table_get(t, 0, 1, "k", ""))
    assert.equal("v5", probe.table_get(t, 0, 1, "k", "n"))
  end)

  it("replaces a value by a longer, a much shorter, and an empty one", function()
    local t = probe.table_new()
    for _, v in ipairs { "1", ("x"):rep(1000), "2", "", ("y"):rep(300), ("z"):rep(20) } do
      probe.table_put(t, 0, 0, "k", "n", v)
      assert.equal(v, probe.table_get(t, 0, 0, "k", "n"))
    end
    assert.equal(1, (probe.table_size(t)))
  end)

  it("gives up the memory of a value that shrinks far", function()
    local t = probe.table_new()
    probe.table_put(t, 0, 0, "k", "", ("x"):rep(10000))
    local _, _, large = probe.table_size(t)
    probe.table_put(t, 0, 0, "k", "", "x")
    local _, _, small = probe.table_size(t)
    assert.is_true(small < large - 9000)
  end)

  it("needs at most 64 bytes beside the key for a small counter", function()
    local t, n = probe.table_new(), 8192 -- a full table: one bucket an entry
    for i = 1, n do probe.table_put(t, 0, 0, ("%08d"):format(i), "", "\xcd\1\2") end
    local _, _, bytes = probe.table_size(t)
    assert.is_true(bytes / n <= 64 + 8, "bytes an entry with its 8-byte key: " .. bytes / n)
  end)

  it("counts a map as one entry and its entries as items", function()
    local t = probe.table_new()
    probe.table_put(t, 0, 0, "v", "", "1")
    probe.table_map_put(t, 1, 0, "m", "", "a", "1")
    probe.table_map_put(t, 1, 0, "m", "", "b", "2")
    local count, items = probe.table_size(t)
    assert.same({ 2, 3 }, { count, items })
    assert.same({ "a", "1", "b", "2" }, probe.table_get(t, 1, 0, "m", ""))
    assert.is_true(probe.table_map_remove(t, 1, 0, "m", "", "a"))
    assert.is_false(probe.table_map_remove(t, 1, 0, "m", "", "a"))
    assert.equal(2, select(2, probe.table_size(t)))
    probe.table_remove(t, 1, 0, "m", "")
    assert.equal(1, select(2, probe.table_size(t)))
  end)

  it("is scanned to the end while each entry found is removed, also while growing", function()
    for n = 1, 70 do
      local t, expected = probe.table_new(), {}
      for i = 1, n do
        expected[i] = ("%03d"):format(i)
        probe.table_put(t, 0, 0, expected[i], "", "v")
      end
      local found, over = probe.table_drain(t)
      table.sort(found)
      assert.same(expected, found)
      assert.is_true(over)
      assert.equal(0, (probe.table_size(t)))
    end
  end)

  it("agrees with a plain table over random histories", function()
    for seed = 1, 20 do
      math.randomseed(seed)
      local t, model, n = probe.table_new(), {}, 0
      for _ = 1, 1500 do
        local key = tostring(math.random(400))
        if math.random(4) == 1 then
          assert.equal(model[key] ~= nil, probe.table_remove(t, 0, 0, key, ""), "seed " .. seed)
          n = n - (model[key] and 1 or 0)
          model[key] = nil
        else
          n = n + (model[key] and 0 or 1)
          model[key] = ("v"):rep(math.random(0, 300))
          probe.table_put(t, 0, 0, key, "", model[key])
        end
      end
      for i = 1, 400 do
        assert.equal(model[tostring(i)], probe.table_get(t, 0, 0, tostring(i), ""), "seed " .. seed)
      end
      assert.equal(n, (probe.table_size(t)), "seed " .. seed)
    end
  end)
end)
