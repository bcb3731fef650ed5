local probe = require "streamckpt.probe"

local function fold_all(d)
  local _, text = probe.delta_fold(d, 1000)
  return text
end

describe("delta", function()
  local d
  before_each(function() d = probe.delta_new() end)

  it("says what it knows: nothing, a value, a removal", function()
    assert.same({ "unknown" }, { probe.delta_get(d, 0, 0, "k", "") })
    probe.delta_put(d, 0, 0, "k", "", "1")
    assert.same({ "present", "1" }, { probe.delta_get(d, 0, 0, "k", "") })
    probe.delta_remove(d, 0, 0, "k", "")
    assert.same({ "removed" }, { probe.delta_get(d, 0, 0, "k", "") })
    probe.delta_put(d, 0, 0, "k", "", "2")
    assert.same({ "present", "2" }, { probe.delta_get(d, 0, 0, "k", "") })
    assert.same({ "unknown" }, { probe.delta_get(d, 0, 1, "k", "") })
    assert.same({ "unknown" }, { probe.delta_get(d, 0, 0, "k", "n") })
  end)

  it("folds several changes of a key into one", function()
    for i = 1, 10 do probe.delta_put(d, 0, 0, "k", "", tostring(i)) end
    probe.delta_put(d, 0, 0, "gone", "", "1")
    probe.delta_remove(d, 0, 0, "gone", "")
    assert.equal(2, (probe.delta_size(d)))
    local text = fold_all(d)
    assert.truthy(text:find("put k 10\n", 1, true))
    assert.truthy(text:find("remove gone\n", 1, true))
    assert.is_true(select(2, probe.delta_size(d)))
  end)

  it("knows single entries of a map", function()
    probe.delta_map_put(d, 0, 0, "m", "", "a", "1")
    probe.delta_map_remove(d, 0, 0, "m", "", "b")
    assert.same({ "present", "1" }, { probe.delta_map_get(d, 0, 0, "m", "", "a") })
    assert.same({ "removed" }, { probe.delta_map_get(d, 0, 0, "m", "", "b") })
    assert.same({ "unknown" }, { probe.delta_map_get(d, 0, 0, "m", "", "c") })
    probe.delta_map_put(d, 0, 0, "m", "", "b", "2")
    assert.equal("map_put m a 1\nmap_put m b 2\n", fold_all(d))
  end)

  it("covers what is older with a range tombstone, and folds it before newer puts", function()
    probe.delta_map_put(d, 0, 0, "m", "", "a", "old")
    probe.delta_map_clear(d, 0, 0, "m", "")
    assert.same({ "removed" }, { probe.delta_map_get(d, 0, 0, "m", "", "a") })
    assert.same({ "removed" }, { probe.delta_map_get(d, 0, 0, "m", "", "never seen") })
    probe.delta_map_put(d, 0, 0, "m", "", "b", "new")
    probe.delta_map_put(d, 0, 0, "m", "", "c", "new")
    probe.delta_map_remove(d, 0, 0, "m", "", "c") -- covered by the range tombstone: no tombstone
    assert.equal("map_clear m\nmap_put m b new\n", fold_all(d))
  end)

  it("lets each entry leave in the step that brings it, whatever the budget", function()
    for i = 1, 5 do probe.delta_map_put(d, 0, 0, "m", "", "k" .. i, "v") end
    probe.delta_map_clear(d, 0, 0, "m", "")
    for i = 1, 3 do probe.delta_map_put(d, 0, 0, "m", "", "k" .. i, "w") end
    local lines = {}
    for _ = 1, 1000 do
      if select(2, probe.delta_size(d)) then break end
      local left, text = probe.delta_fold(d, 1)
      assert.equal(0, left)
      assert.is_true(select(2, text:gsub("\n", "")) <= 2) -- the clear and one entry at most
      lines[#lines + 1] = text
      for k in text:gmatch("map_put m (%S+)") do
        assert.same({ "unknown" }, { probe.delta_map_get(d, 0, 0, "m", "", k) })
      end
    end
    local expected = "map_clear m\nmap_put m k1 w\nmap_put m k2 w\nmap_put m k3 w\n"
    assert.equal(expected, table.concat(lines))
  end)

  it("folds nothing more than its budget", function()
    for i = 1, 500 do probe.delta_put(d, 0, 0, "k" .. i, "", "v") end
    local left, text = probe.delta_fold(d, 100)
    local moved = select(2, text:gsub("\n", ""))
    assert.equal(0, left)
    assert.is_true(moved > 0 and moved <= 100)
    assert.equal(500 - moved, (probe.delta_size(d)))
  end)
end)
