local probe = require "streamckpt.probe"
local tmp = require "support.tmp_folder"
local xxh64 = require "support.xxh64"

describe("storage", function()
  local dir, s
  before_each(function() dir = tmp.make(); s = probe.storage_new(true) end)
  after_each(tmp.remove)

  it("joins paths and finds parents", function()
    assert.equal("a/b", probe.storage_join("a", "b"))
    assert.equal("a/b", probe.storage_join("a/", "b"))
    assert.equal("b", probe.storage_join("", "b"))
    assert.equal("a/b", probe.storage_parent("a/b/c"))
    assert.equal(".", probe.storage_parent("c"))
    assert.equal("/", probe.storage_parent("/c"))
  end)

  it("makes folders with their parents, again and again", function()
    assert.equal(0, probe.storage_make_dir(s, dir .. "/a/b//c/"))
    assert.equal(0, probe.storage_make_dir(s, dir .. "/a/b/c"))
    assert.equal(2, probe.storage_kind(s, dir .. "/a/b/c"))
    tmp.write("file", "x")
    local ok, message, code = probe.storage_make_dir(s, dir .. "/file")
    assert.is_nil(ok)
    assert.equal("EEXIST", code)
    assert.matches("/file", message, 1, true)
    local _, _, deeper = probe.storage_make_dir(s, dir .. "/file/x")
    assert.equal("EEXIST", deeper)
  end)

  it("says what is there", function()
    tmp.write("file", "x")
    assert.equal(1, probe.storage_kind(s, dir .. "/file"))
    assert.equal(2, probe.storage_kind(s, dir))
    assert.equal(0, probe.storage_kind(s, dir .. "/none"))
    assert.equal(0, probe.storage_kind(s, dir .. "/file/none"))
  end)

  it("lists sorted by name", function()
    for _, name in ipairs { "b", "a10", "a9", ".x" } do tmp.write(name, "") end
    assert.same({ ".x", "a10", "a9", "b" }, probe.storage_names(s, dir))
    local _, message, code = probe.storage_names(s, dir .. "/none")
    assert.equal("ENOTFOUND", code)
    assert.matches("/none", message, 1, true)
  end)

  it("reads whole files, up to a limit", function()
    local data = ("0123456789"):rep(30000)
    tmp.write("file", data)
    assert.equal(data, probe.storage_read(s, dir .. "/file"))
    assert.equal(data, probe.storage_read(s, dir .. "/file", #data))
    assert.equal("ELIMIT", select(3, probe.storage_read(s, dir .. "/file", #data - 1)))
    assert.equal("ENOTFOUND", select(3, probe.storage_read(s, dir .. "/none")))
    tmp.write("empty", "")
    assert.equal("", probe.storage_read(s, dir .. "/empty"))
  end)

  it("removes trees, and what is absent, without following links", function()
    probe.storage_make_dir(s, dir .. "/kept")
    tmp.write("kept/file", "x")
    probe.storage_make_dir(s, dir .. "/a/b/c")
    tmp.write("a/b/file", "x")
    assert(os.execute(("ln -s ../kept %s/a/link"):format(dir)))
    assert.equal(0, probe.storage_remove_tree(s, dir .. "/a"))
    assert.equal(0, probe.storage_kind(s, dir .. "/a"))
    assert.equal("x", tmp.read("kept/file"))
    assert.equal(0, probe.storage_remove_tree(s, dir .. "/a"))
    assert.equal(0, probe.storage_remove(s, dir .. "/none"))
    assert.equal(0, probe.storage_remove_dir(s, dir .. "/none"))
    local _, _, code = probe.storage_remove_dir(s, dir .. "/kept")
    assert.equal("EIO", code)
  end)

  it("locks a file for one holder, and names the process that holds it", function()
    local lock = assert(probe.storage_lock(s, dir .. "/lock"))
    local pid = io.open("/proc/self/stat"):read("n")
    assert.equal(pid .. "\n", tmp.read("lock"))
    local none, message, code = probe.storage_lock(s, dir .. "/lock")
    assert.is_nil(none)
    assert.equal("ELOCKED", code)
    assert.matches("is in use by process " .. pid, message, 1, true)
    probe.storage_unlock(s, lock)
    lock = assert(probe.storage_lock(s, dir .. "/lock"))
    probe.storage_unlock(s, lock)
  end)

  describe("publishing", function()
    it("writes, syncs, renames, syncs the folder, in this order", function()
      local length, sum = probe.storage_publish(s, dir .. "/file", { "ab", "", "c" })
      assert.equal(3, length)
      assert.equal(xxh64("abc"), sum)
      local log = probe.storage_log(s):gsub(dir:gsub("%p", "%%%0"), "D"):gsub("%-%d+\n", "-N\n")
      assert.equal("create D/.file.tmp-N\nwrite D/.file.tmp-N\nsync D/.file.tmp-N\n" ..
                   "rename D/file\nsync_dir D\n", log)
      assert.equal("abc", tmp.read("file"))
      assert.same({ "file" }, probe.storage_names(s, dir))
    end)

    it("counts and sums pieces of any size", function()
      local pieces = {}
      for _, n in ipairs { 1, 65535, 65536, 65537, 0, 200000, 3 } do
        pieces[#pieces + 1] = (string.char(#pieces + 65)):rep(n)
      end
      local all = table.concat(pieces)
      local length, sum = probe.storage_publish(s, dir .. "/file", pieces)
      assert.equal(#all, length)
      assert.equal(xxh64(all), sum)
      assert.equal(all, tmp.read("file"))
    end)

    it("leaves nothing behind when abandoned", function()
      probe.storage_publish(s, dir .. "/file", { "abc" }, true)
      assert.same({}, probe.storage_names(s, dir))
    end)

    it("publishes nothing after any failure, and keeps the file that was there", function()
      tmp.write("file", "old")
      local pieces = { ("x"):rep(70000), ("y"):rep(70000), "z" }
      for _, op in ipairs { "create", "write", "sync", "rename" } do
        probe.storage_fault(s, op, 0)
        local ok, message, code = probe.storage_publish(s, dir .. "/file", pieces)
        assert.is_nil(ok)
        assert.equal("EIO", code)
        assert.matches(dir, message, 1, true)
        assert.equal("old", tmp.read("file"), op)
        assert.same({ "file" }, probe.storage_names(s, dir), op)
      end
    end)

    it("never hides a failed write from the commit", function()
      probe.storage_fault(s, "bytes", 70010)
      local pieces = { ("x"):rep(70000), ("y"):rep(70000), "z" }
      local ok = probe.storage_publish(s, dir .. "/file", pieces)
      assert.is_nil(ok)
      assert.same({}, probe.storage_names(s, dir))
    end)

    it("tells of a folder that could not be synced", function()
      probe.storage_fault(s, "sync_dir", 0)
      assert.equal("EIO", select(3, probe.storage_publish(s, dir .. "/file", { "abc" })))
    end)

    it("needs the folder", function()
      local ok, message, code = probe.storage_publish(s, dir .. "/none/file", { "abc" })
      assert.is_nil(ok)
      assert.equal("ENOTFOUND", code)
      assert.matches("/none/", message, 1, true)
    end)

    it("knows its temporary names, and only them", function()
      for _, name in ipairs { ".file.tmp-0", "._metadata.tmp-123", ".a.tmp-1.tmp-2" } do
        assert.is_true(probe.storage_is_temp(name), name)
      end
      for _, name in ipairs { "file", "file.tmp-1", ".file.tmp-", ".file.tmp-1x", ".tmp-1", "",
                              ".file", ".a.tmp-1.b" } do
        assert.is_false(probe.storage_is_temp(name), name)
      end
    end)
  end)
end)
