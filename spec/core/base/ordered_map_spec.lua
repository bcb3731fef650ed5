local probe = require "streamckpt.probe"

local function keys_of(list)
  local keys = {}
  for i = 1, #list, 2 do keys[#keys + 1] = list[i] end
  return keys
end

describe("ordered map", function()
  it("is empty at first", function()
    local m = probe.omap_new()
    assert.same({}, probe.omap_list(m))
    assert.equal(0, (probe.omap_count(m)))
    assert.is_nil((probe.omap_find(m, "a")))
    assert.is_nil((probe.omap_seek(m, "")))
    assert.is_nil((probe.omap_after(m, "")))
    assert.is_false(probe.omap_remove(m, "a"))
  end)

  it("keeps keys in bytewise order, a prefix first, whatever bytes they hold", function()
    local m = probe.omap_new()
    for _, k in ipairs { "b", "\xff", "a\0", "", "a", "\0", "ab" } do probe.omap_put(m, k, k) end
    assert.same({ "", "\0", "a", "a\0", "ab", "b", "\xff" }, keys_of(probe.omap_list(m)))
  end)

  it("replaces values in place and keeps the flags of the entry", function()
    local m = probe.omap_new()
    probe.omap_put(m, "k", "1")
    assert.equal(0, probe.omap_flags(m, "k"))
    probe.omap_flags(m, "k", 5)
    for _, v in ipairs { "", "22", ("long"):rep(100), "3" } do
      probe.omap_put(m, "k", v)
      local _, found = probe.omap_find(m, "k")
      assert.equal(v, found)
      assert.equal(5, probe.omap_flags(m, "k"))
    end
    assert.equal(1, (probe.omap_count(m)))
  end)

  it("seeks the first key at or after another, and the first after it", function()
    local m = probe.omap_new()
    for _, k in ipairs { "b", "d", "f" } do probe.omap_put(m, k, "") end
    assert.equal("b", (probe.omap_seek(m, "")))
    assert.equal("d", (probe.omap_seek(m, "c")))
    assert.equal("d", (probe.omap_seek(m, "d")))
    assert.equal("f", (probe.omap_after(m, "d")))
    assert.is_nil((probe.omap_seek(m, "g")))
    assert.is_nil((probe.omap_after(m, "f")))
  end)

  it("counts no bytes when it is emptied", function()
    local m = probe.omap_new()
    for i = 1, 200 do probe.omap_put(m, "key" .. i, ("v"):rep(i)) end
    for i = 1, 200 do probe.omap_put(m, "key" .. i, ("v"):rep(201 - i)) end
    for i = 1, 100 do assert.is_true(probe.omap_remove(m, "key" .. i)) end
    local n, bytes = probe.omap_count(m)
    assert.equal(100, n)
    assert.is_true(bytes > 0)
    for i = 101, 200 do probe.omap_remove(m, "key" .. i) end
    assert.same({ 0, 0 }, { probe.omap_count(m) })
    probe.omap_put(m, "again", "1")
    probe.omap_clear(m)
    assert.same({ 0, 0 }, { probe.omap_count(m) })
    assert.same({}, probe.omap_list(m))
  end)

  it("agrees with a sorted list over random histories", function()
    for seed = 1, 30 do
      math.randomseed(seed)
      local m, model = probe.omap_new(), {}
      local function key()
        local k = {}
        for i = 1, math.random(0, 4) do k[i] = string.char(({ 0, 97, 98, 255 })[math.random(4)]) end
        return table.concat(k)
      end
      for _ = 1, 300 do
        local k = key()
        if math.random(3) == 1 then
          assert.equal(model[k] ~= nil, probe.omap_remove(m, k), "seed " .. seed)
          model[k] = nil
        else
          model[k] = ("x"):rep(math.random(0, 40))
          probe.omap_put(m, k, model[k])
        end
      end
      local sorted = {}
      for k in pairs(model) do sorted[#sorted + 1] = k end
      table.sort(sorted)
      local expected = {}
      for _, k in ipairs(sorted) do
        expected[#expected + 1] = k
        expected[#expected + 1] = model[k]
      end
      assert.same(expected, probe.omap_list(m), "seed " .. seed)
      for _ = 1, 30 do
        local k, at, after = key(), nil, nil
        for i = #sorted, 1, -1 do
          if sorted[i] >= k then at = sorted[i] end
          if sorted[i] > k then after = sorted[i] end
        end
        assert.equal(at, (probe.omap_seek(m, k)), "seed " .. seed)
        assert.equal(after, (probe.omap_after(m, k)), "seed " .. seed)
      end
    end
  end)
end)
