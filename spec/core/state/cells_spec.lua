local probe = require "streamckpt.probe"

-- Epochs, as the window counts them: a cut of epoch n sees what was put before the count went on.
describe("cells", function()
  local function size(c) return (probe.cells_size(c)) end
  local function held(c) return select(2, probe.cells_size(c)) end
  local function bytes(c) return select(3, probe.cells_size(c)) end

  it("keep values apart by state, key and namespace", function()
    local c = probe.cells_new()
    local places = { { 0, "k", "" }, { 1, "k", "" }, { 0, "k2", "" }, { 0, "k", "n" }, { 0, "", "kn" },
                     { 0, "kn", "" } }
    for i, p in ipairs(places) do probe.cells_put(c, p[1], p[2], p[3], "v" .. i) end
    for i, p in ipairs(places) do assert.equal("v" .. i, probe.cells_get(c, table.unpack(p))) end
    assert.equal(#places, size(c))
    probe.cells_remove(c, 0, "k", "")
    probe.cells_remove(c, 0, "k", "")
    assert.is_nil(probe.cells_get(c, 0, "k", ""))
    assert.equal("v4", probe.cells_get(c, 0, "k", "n"))
    assert.equal(#places - 1, size(c))
  end)

  it("replace a value by a longer, a much shorter, and an empty one", function()
    local c = probe.cells_new()
    for _, v in ipairs { "1", ("x"):rep(1000), "2", "", ("y"):rep(300), ("z"):rep(20), ("w"):rep(100000) } do
      probe.cells_put(c, 0, "k", "n", v)
      assert.equal(v, probe.cells_get(c, 0, "k", "n"))
    end
    assert.equal(1, size(c))
    assert.equal(1, held(c))
  end)

  it("give up the memory of a value that shrinks far, and of those that are removed", function()
    local c = probe.cells_new()
    local empty = bytes(c)
    probe.cells_put(c, 0, "k", "", ("x"):rep(10000))
    local large = bytes(c)
    probe.cells_put(c, 0, "k", "", "x")
    assert.is_true(bytes(c) < large - 9000)
    for i = 1, 1000 do probe.cells_put(c, 0, "k" .. i, "", "value") end
    for i = 1, 1000 do probe.cells_remove(c, 0, "k" .. i, "") end
    probe.cells_remove(c, 0, "k", "")
    assert.is_true(bytes(c) <= empty + 2048 * 8) -- the buckets stay
  end)

  it("need at most 64 bytes beside the key for a small counter", function()
    local c, n = probe.cells_new(), 8192 -- between a full table and one that has just grown: 2 buckets a cell
    for i = 1, n do probe.cells_put(c, 0, ("%08d"):format(i), "", "\xcd\1\2") end
    assert.is_true(bytes(c) / n <= 64 + 8, "bytes a cell with its 8-byte key: " .. bytes(c) / n)
  end)

  it("take back the bytes that they handed out", function()
    local c = probe.cells_new()
    probe.cells_put(c, 0, "k", "", "own", 1)
    probe.cells_put_own(c, 0, "k", "", 1, 0)
    probe.cells_put_own(c, 0, "k", "", 2, 1) -- into a new cell, from the old one
    assert.equal("own", probe.cells_get(c, 0, "k", ""))
    assert.equal(2, held(c))
  end)

  it("show a walk what there was in its epoch, whatever is changed since", function()
    local c = probe.cells_new()
    for i = 1, 100 do probe.cells_put(c, 0, "k" .. i, i % 2 == 0 and "n" or "", "old" .. i, 1) end
    for i = 1, 100, 3 do probe.cells_put(c, 0, "k" .. i, i % 2 == 0 and "n" or "", "new", 2, 1, true) end
    for i = 2, 100, 3 do probe.cells_remove(c, 0, "k" .. i, i % 2 == 0 and "n" or "", 2, 1, true) end
    for i = 1, 50 do probe.cells_put(c, 0, "later" .. i, "", "new", 2, 1, true) end
    local seen, n = probe.cells_walk(c, 1), 0
    for i = 1, 100 do
      assert.equal("old" .. i, seen[("0|k%d|%s"):format(i, i % 2 == 0 and "n" or "")])
    end
    for _ in pairs(seen) do n = n + 1 end
    assert.equal(100, n)
    assert.equal(100 - 33 + 50, size(c))
    assert.equal(100 + 34 + 50, held(c))
    assert.equal(0, probe.cells_give(c, 60)) -- in steps
    assert.equal(3, probe.cells_give(c, 10))
    assert.equal(size(c), held(c))
  end)

  it("change in place what no cut sees", function()
    local c = probe.cells_new()
    probe.cells_put(c, 0, "k", "", "1", 2, 1)
    probe.cells_put(c, 0, "k", "", "2", 2, 1) -- born behind the cut
    probe.cells_put(c, 0, "k", "", "3", 3, 0) -- no cut at all
    assert.equal(1, held(c))
    probe.cells_put(c, 0, "k", "", "4", 3, 2)
    assert.equal(2, held(c))
    probe.cells_remove(c, 0, "k", "", 3, 2)   -- born behind the cut: it leaves at once
    assert.equal(1, held(c))
    assert.same({ ["0|k|"] = "3" }, probe.cells_walk(c, 2))
  end)

  it("keep pages while somebody may walk, and give them back afterwards", function()
    local c = probe.cells_new()
    local n = 1200 -- beyond the end of a growth, which would give up buckets meanwhile
    for i = 1, n do probe.cells_put(c, 0, "k" .. i, "", ("v"):rep(i % 3 * 700), 2, 1, true) end
    local full = bytes(c)
    for i = 1, n do probe.cells_remove(c, 0, "k" .. i, "", 2, 1, true) end
    assert.equal(full, bytes(c))
    assert.same({}, probe.cells_walk(c, 2))
    for i = 1, 3 do probe.cells_put(c, 0, "k", "", ("v"):rep(i % 3 * 700), 2, 1, true) end
    for i = 1, 3 do probe.cells_put(c, 0, "k", "", ("v"):rep(i % 3 * 700), 2, 0, false) end
    assert.is_true(bytes(c) < full / 10)
  end)

  it("share pages, and give back the chunks that none of them is left of", function()
    local c = probe.cells_new()
    local one_chunk
    for i = 1, 50000 do
      probe.cells_put(c, 0, "k" .. i, "", "value")
      local _, _, _, pages, chunks = probe.cells_size(c)
      if pages == 1 then one_chunk = chunks end
    end
    local _, _, _, pages, chunks = probe.cells_size(c)
    assert.is_true(pages > 200) -- of 168 cells each, but for the first small ones
    assert.is_true(chunks >= pages * 8192 and chunks < pages * 8192 + 2 * one_chunk)
    for i = 1, 50000, 2 do probe.cells_remove(c, 0, "k" .. i, "") end
    for i = 1, 50000, 2 do probe.cells_put(c, 0, "k" .. i, "", "again") end -- into the holes
    assert.equal(pages, (select(4, probe.cells_size(c))))
    for i = 1, 50000 do probe.cells_remove(c, 0, "k" .. i, "") end
    assert.same({ 0, one_chunk }, { select(4, probe.cells_size(c)) })
  end)

  it("find their way while keys come and go, in no more buckets than what stays needs", function()
    local c = probe.cells_new()
    local empty = bytes(c)
    for i = 1, 40 do probe.cells_put(c, 0, "stays" .. i, "", "v" .. i) end
    for i = 1, 20000 do
      probe.cells_put(c, 0, "goes" .. i, "", "g")
      if i > 5 then
        assert.equal("g", probe.cells_get(c, 0, "goes" .. i - 5, ""))
        probe.cells_remove(c, 0, "goes" .. i - 5, "")
        assert.is_nil(probe.cells_get(c, 0, "goes" .. i - 5, ""))
      end
    end
    for i = 1, 40 do assert.equal("v" .. i, probe.cells_get(c, 0, "stays" .. i, "")) end
    assert.equal(45, size(c))
    assert.is_true(bytes(c) - empty < 45 * 64 + 2 * 128 * 8 + 8192) -- cells, buckets twice, a page of room
  end)

  it("agree with a plain table over random histories", function()
    for seed = 1, 20 do
      math.randomseed(seed)
      local c, now, cut, epoch, keep, cut_epoch = probe.cells_new(), {}, nil, 1, 0, nil
      for _ = 1, 2000 do
        local act, key = math.random(100), tostring(math.random(200))
        local space = math.random(4) == 1 and "n" or ""
        local name = "0|" .. key .. "|" .. space
        if act <= 60 then
          now[name] = ("x"):rep(math.random(0, 40)) .. math.random(1000)
          probe.cells_put(c, 0, key, space, now[name], epoch, keep, keep > 0)
        elseif act <= 80 then
          now[name] = nil
          probe.cells_remove(c, 0, key, space, epoch, keep, keep > 0)
        elseif act <= 95 then
          assert.equal(now[name], probe.cells_get(c, 0, key, space), "seed " .. seed)
        elseif cut then -- the cut has been read: what was kept for it goes
          assert.same(cut, probe.cells_walk(c, cut_epoch), "seed " .. seed)
          probe.cells_give(c, 100000)
          cut, keep = nil, 0
          assert.equal(size(c), held(c))
        else
          cut, cut_epoch, keep = {}, epoch, epoch
          for k, v in pairs(now) do cut[k] = v end
          epoch = epoch + 1
        end
      end
      local n = 0
      for name, v in pairs(now) do
        n = n + 1
        local key, space = name:match "^0|(.-)|(.*)$"
        assert.equal(v, probe.cells_get(c, 0, key, space), "seed " .. seed)
      end
      assert.equal(n, size(c))
    end
  end)
end)
