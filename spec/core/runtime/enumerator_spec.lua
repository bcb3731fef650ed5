local msgpack = require "support.msgpack"
local probe = require "streamckpt.probe"

local function with(readers, splits)
  local e = probe.enumerator_new(readers)
  assert(probe.enumerator_found(e, msgpack.encode(splits)))
  return e
end

-- The next answer as { reader, split } with "none" for no more; nil where there is none.
local function answer(e)
  local reader, split = probe.enumerator_next(e)
  return reader and { reader, split and msgpack.decode(split) or "none" }
end

local function saved(e) return msgpack.decode(probe.enumerator_snapshot(e)) end

describe("enumerator", function()
  it("deals splits in order to those who ask, first come first served", function()
    local e = with(3, { "a", "b", "c" })
    assert.is_nil(answer(e))
    probe.enumerator_ask(e, 2)
    probe.enumerator_ask(e, 0)
    assert.same({ 2, "a" }, answer(e))
    assert.same({ 0, "b" }, answer(e))
    assert.is_nil(answer(e))
    for _, reader in ipairs { 1, 2, 0 } do probe.enumerator_ask(e, reader) end
    assert.same({ 1, "c" }, answer(e))
    assert.same({ 2, "none" }, answer(e))
    assert.same({ 0, "none" }, answer(e))
    probe.enumerator_ask(e, 2)
    assert.same({ 2, "none" }, answer(e))
  end)

  it("answers who asks for more when every reader has asked once", function()
    local e = with(3, { "a", "b", "c", "d", "e" })
    probe.enumerator_ask(e, 0)
    assert.same({ 0, "a" }, answer(e))
    probe.enumerator_ask(e, 0, true)
    assert.is_nil(answer(e))
    probe.enumerator_ask(e, 1)
    assert.same({ 1, "b" }, answer(e))
    probe.enumerator_ask(e, 1, true)
    assert.is_nil(answer(e)) -- the third one has not asked yet, and goes first
    probe.enumerator_ask(e, 2)
    assert.same({ 2, "c" }, answer(e))
    assert.same({ 0, "d" }, answer(e))
    assert.same({ 1, "e" }, answer(e))
    assert.is_nil(answer(e))
    probe.enumerator_ask(e, 2, true)
    assert.same({ 2, "none" }, answer(e))
  end)

  it("answers at once who has none left, also while it waits for more", function()
    local e = with(2, { "a", "b" })
    probe.enumerator_ask(e, 0)
    assert.same({ 0, "a" }, answer(e))
    probe.enumerator_ask(e, 0, true)
    probe.enumerator_ask(e, 0)
    assert.same({ 0, "b" }, answer(e))
    probe.enumerator_ask(e, 1)
    assert.same({ 1, "none" }, answer(e))
    assert.is_nil(answer(e)) -- the ask for more was covered by the other
  end)

  it("keeps asks until the splits are found", function()
    local e = probe.enumerator_new(2)
    assert.is_true(probe.enumerator_finding(e))
    probe.enumerator_ask(e, 1)
    assert.is_nil(answer(e))
    assert(probe.enumerator_found(e, msgpack.encode { "a" }))
    assert.is_false(probe.enumerator_finding(e))
    assert.same({ 1, "a" }, answer(e))
  end)

  it("takes asking twice before an answer as one ask", function()
    local e = with(1, { "a", "b" })
    probe.enumerator_ask(e, 0)
    probe.enumerator_ask(e, 0)
    assert.same({ 0, "a" }, answer(e))
    assert.is_nil(answer(e))
  end)

  it("301. empty input: says no more at once", function()
    local e = with(2, {})
    probe.enumerator_ask(e, 0)
    assert.same({ 0, "none" }, answer(e))
    assert.same({ found = true, splits = {} }, saved(e))
  end)

  it("saves what is not dealt, and deals it anew to another number of readers", function()
    local e = with(2, { "a", { "b", 1 }, "c" })
    probe.enumerator_ask(e, 0)
    assert.same({ 0, "a" }, answer(e))
    assert.same({ found = true, splits = { { "b", 1 }, "c" } }, saved(e))
    local again = probe.enumerator_new(5)
    assert(probe.enumerator_restore(again, probe.enumerator_snapshot(e)))
    assert.is_false(probe.enumerator_finding(again))
    probe.enumerator_ask(again, 4)
    assert.same({ 4, { "b", 1 } }, answer(again))
    probe.enumerator_ask(again, 0)
    assert.same({ 0, "c" }, answer(again))
  end)

  it("looks for splits again when it was saved before they were found", function()
    local e = probe.enumerator_new(1)
    assert.same({ found = false, splits = {} }, saved(e))
    local again = probe.enumerator_new(1)
    assert(probe.enumerator_restore(again, probe.enumerator_snapshot(e)))
    assert.is_true(probe.enumerator_finding(again))
  end)

  it("refuses splits that are no list, damaged, or found twice", function()
    local e = probe.enumerator_new(1)
    for _, bytes in ipairs { msgpack.encode(7), "", "\x92\x01", "\xc1", "\x90\x01" } do
      local ok, message, code = probe.enumerator_found(e, bytes)
      assert.is_nil(ok)
      assert.equal("EVALUE", code)
      assert.matches("splits", message, 1, true)
      assert.is_true(probe.enumerator_finding(e))
    end
    assert(probe.enumerator_found(e, msgpack.encode {}))
    assert.equal("EINVAL", select(3, probe.enumerator_found(e, msgpack.encode {})))
  end)

  it("refuses damaged state", function()
    local whole = probe.enumerator_snapshot(with(1, { "a", "b" }))
    local e = probe.enumerator_new(1)
    for n = 0, #whole - 1 do
      assert.equal("ECORRUPT", select(3, probe.enumerator_restore(e, whole:sub(1, n))), n)
    end
    -- A map that says "found" but lists nothing, or something that is no list.
    assert.equal("ECORRUPT", select(3, probe.enumerator_restore(e, "\x81\xa5found\xc3")))
    assert.equal("ECORRUPT", select(3, probe.enumerator_restore(e, "\x82\xa5found\xc3\xa6splits\x05")))
    assert.is_true(probe.enumerator_finding(e))
  end)

  it("gives every split to one reader or leaves it in the state, at any moment", function()
    local seed = os.time()
    math.randomseed(seed)
    for round = 1, 200 do
      local readers, splits = math.random(1, 4), {}
      for i = 1, math.random(0, 12) do splits[i] = i end
      local e, dealt = with(readers, splits), {}
      for _ = 1, math.random(0, 30) do
        if math.random(2) == 1 then
          probe.enumerator_ask(e, math.random(0, readers - 1))
        else
          local a = answer(e)
          if a and a[2] ~= "none" then dealt[#dealt + 1] = a[2] end
        end
      end
      for _, split in ipairs(saved(e).splits) do dealt[#dealt + 1] = split end
      assert.same(splits, dealt, "seed " .. seed .. " round " .. round)
    end
  end)
end)
