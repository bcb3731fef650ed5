-- A storage that adds up how long another one's calls take. Each call that is measured takes 1 ns here, so the
-- sum is the number of calls that came to the storage below, which keeps a log of them (closing is not in it).
local probe = require "streamckpt.probe"
local tmp = require "support.tmp_folder"

describe("timed_storage", function()
  local dir, below, s
  before_each(function()
    dir = tmp.make()
    below = probe.storage_new(true)
    s = probe.storage_timed(below)
  end)
  after_each(tmp.remove)

  local function calls()
    local n = 0
    for _ in probe.storage_log(below):gmatch("\n") do n = n + 1 end
    return n
  end

  it("passes everything on, and counts what it took", function()
    local data = ("0123456789"):rep(20000)
    assert.equal(0, probe.storage_spent(s))
    assert.equal(0, probe.storage_make_dir(s, dir .. "/a"))
    assert.equal(#data, (probe.storage_publish(s, dir .. "/a/file", { data })))
    assert.equal(calls() + 1, probe.storage_spent(s))

    local before = probe.storage_spent(s)
    assert.equal(data, probe.storage_read(s, dir .. "/a/file"))
    assert.equal(before + calls() + 1, probe.storage_spent(s))

    before = probe.storage_spent(s)
    assert.same({ "file" }, probe.storage_names(s, dir .. "/a"))
    assert.equal(1, probe.storage_kind(s, dir .. "/a/file"))
    assert.equal(0, probe.storage_rename(s, dir .. "/a/file", dir .. "/a/other"))
    assert.equal(0, probe.storage_sync_dir(s, dir .. "/a"))
    assert.equal(0, probe.storage_remove_tree(s, dir .. "/a"))
    assert.equal(before + calls(), probe.storage_spent(s))
    assert.equal(0, probe.storage_kind(below, dir .. "/a"))
  end)

  it("passes failures on as they are", function()
    for _, kind in ipairs { "create", "write", "sync", "rename", "sync_dir" } do
      probe.storage_fault(below, kind)
      local ok, message, code = probe.storage_publish(s, dir .. "/file", { "x" })
      assert.is_nil(ok)
      assert.equal("EIO", code)
      assert.matches("injected failure of " .. kind, message, 1, true)
      probe.storage_remove(below, dir .. "/file")
    end
    assert.equal("ENOTFOUND", select(3, probe.storage_read(s, dir .. "/none")))
  end)

  it("holds locks of the storage below", function()
    local lock = probe.storage_lock(s, dir .. "/lock")
    assert.equal("ELOCKED", select(3, probe.storage_lock(below, dir .. "/lock")))
    probe.storage_unlock(s, lock)
    probe.storage_unlock(below, (probe.storage_lock(below, dir .. "/lock")))
  end)
end)
