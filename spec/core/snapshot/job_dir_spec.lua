local probe = require "streamckpt.probe"
local tmp = require "support.tmp_folder"
local xxh64 = require "support.xxh64"

describe("job_dir", function()
  local dir, s, job
  before_each(function()
    dir = tmp.make()
    s = probe.storage_new(false)
    job = assert(probe.job_open(s, dir, "visits"))
  end)
  after_each(function()
    if job then probe.job_close(job) end
    tmp.remove()
  end)

  local function reopen()
    probe.job_close(job)
    job = assert(probe.job_open(s, dir, "visits"))
  end

  -- A checkpoint with files of its own, and files of a finished task in older folders.
  local function checkpoint(id, own, older)
    local m = { id = id, job_id = "visits", operators = {} }
    local function list(file, directory)
      local path = ("visits/%s/%s"):format(directory or "chk-" .. id, file)
      local data = tmp.read(path) or path
      probe.storage_make_dir(s, probe.storage_parent(dir .. "/" .. path))
      tmp.write(path, data)
      m.operators[#m.operators + 1] = {
        uid = file, name = file, parallelism = 1, max_parallelism = 1,
        subtasks = { { ["end"] = directory and 2 or 0, directory = directory, handles = {
          { kind = 1, file = file, length = #data, checksum = xxh64(data), first = 0, last = 0,
            offsets = { 0 }, states = {} } } } } }
    end
    probe.job_prepare(job, id)
    for _, file in ipairs(own) do list(file) end
    for _, pair in ipairs(older or {}) do list(pair[2], pair[1]) end
    assert(probe.metadata_write(s, dir .. "/visits/chk-" .. id, m))
  end

  local function damage(id)
    local path = ("visits/chk-%d/_metadata"):format(id)
    tmp.write(path, tmp.read(path):sub(1, -2) .. "x")
  end

  local function newer_version(id)
    local bytes = "SCKPMETA" .. string.pack("<I4I4", 9, 1) .. "\x80"
    tmp.write(("visits/chk-%d/_metadata"):format(id), bytes .. string.pack("<i8", xxh64(bytes)))
  end

  -- Every file below the job's folder, sorted.
  local function files()
    local find = "cd %s/visits && find . -type f | sed 's,^./,,' | LC_ALL=C sort"
    local p = io.popen(find:format(dir))
    local out = {}
    for line in p:lines() do
      if line ~= "lock" and line ~= "ids" then out[#out + 1] = line end
    end
    p:close()
    return out
  end

  local function folders()
    local out = {}
    for _, name in ipairs(probe.storage_names(s, dir .. "/visits")) do
      if name:match "^chk" then out[#out + 1] = name end
    end
    return out
  end

  describe("lock", function()
    it("refuses a second holder, naming the process", function()
      local second, message, code = probe.job_open(s, dir, "visits")
      assert.is_nil(second)
      assert.equal("ELOCKED", code)
      assert.matches(tostring(io.open("/proc/self/stat"):read("n")), message, 1, true)
      assert(probe.job_open(s, dir, "other")) -- another job is another folder
      reopen()
    end)
  end)

  describe("ids", function()
    it("begin at nothing", function()
      assert.equal(0, probe.job_highest(job))
    end)

    it("are reserved durably, and only upwards", function()
      assert.equal(0, probe.job_reserve(job, 1000))
      assert.equal("checkpoint 1000\nattempt 0\n", tmp.read("visits/ids"))
      probe.storage_log(s)
      assert.equal(0, probe.job_reserve(job, 500))
      assert.equal("", probe.storage_log(s))
      reopen()
      assert.equal(1000, probe.job_highest(job))
    end)

    it("325. continue above every chk-N found, with metadata or not", function()
      probe.job_prepare(job, 7)
      reopen()
      assert.equal(7, probe.job_highest(job))
      assert.equal(0, probe.job_reserve(job, 1007))
      reopen()
      assert.equal(1007, probe.job_highest(job))
    end)

    it("take only true names of checkpoints into account", function()
      for _, name in ipairs { "chk-", "chk-x", "chk-07", "chk-9x", "chk--9", "xchk-9", "CHK-9",
                              "chk-9223372036854775808", "chk-99999999999999999999999" } do
        probe.storage_make_dir(s, dir .. "/visits/" .. name)
      end
      reopen()
      assert.equal(0, probe.job_highest(job))
      assert.same({}, probe.job_scan(s, dir .. "/visits"))
      probe.job_prepare(job, 0)
      probe.job_prepare(job, 9223372036854775807)
      reopen()
      assert.equal(9223372036854775807, probe.job_highest(job))
    end)

    it("number attempts across processes, each durable before it is used", function()
      assert.equal(1, probe.job_next_attempt(job))
      assert.equal(2, probe.job_next_attempt(job))
      assert.equal(0, probe.job_reserve(job, 1000))
      assert.equal("checkpoint 1000\nattempt 2\n", tmp.read("visits/ids"))
      reopen()
      assert.equal(3, probe.job_next_attempt(job))
      assert.equal(1000, probe.job_highest(job))
    end)

    it("are never used twice, wherever the process is killed", function()
      local last_id, last_attempt = 0, 0
      for _, op in ipairs { "create", "write", "bytes", "sync", "rename", "sync_dir" } do
        for after = 0, 30, 3 do
          probe.storage_fault(s, op, after, true)
          for _ = 1, 4 do
            local up_to = probe.job_highest(job) + 1000
            if probe.job_reserve(job, up_to) then last_id = up_to end
            local attempt = probe.job_next_attempt(job)
            if attempt then
              assert.is_true(attempt > last_attempt)
              last_attempt = attempt
            end
          end
          probe.storage_fault(s, nil)
          reopen()
          assert.is_true(probe.job_highest(job) >= last_id)
        end
      end
      assert.is_true(probe.job_next_attempt(job) > last_attempt)
    end)

    it("are refused when the file is damaged", function()
      for _, text in ipairs { "", "checkpoint 5\n", "checkpoint x\nattempt 1\n", "attempt 1\n",
                              "checkpoint 1\nattempt 1\nmore", ("x"):rep(1000),
                              "checkpoint 99999999999999999999\nattempt 1\n",
                              "checkpoint -1\nattempt 1\n" } do
        tmp.write("visits/ids", text)
        probe.job_close(job)
        local message, code
        job, message, code = probe.job_open(s, dir, "visits")
        assert.is_nil(job, text)
        assert.equal("ECORRUPT", code, text)
        assert.matches("visits/ids", message, 1, true)
        tmp.write("visits/ids", "checkpoint 5\nattempt 6\n")
        job = assert(probe.job_open(s, dir, "visits")) -- a refusal leaves no lock behind
        assert.equal(7, probe.job_next_attempt(job))
      end
    end)
  end)

  describe("scan", function()
    it("176. order on recovery: tells valid, damaged and missing metadata, by id", function()
      checkpoint(10, { "a" })
      checkpoint(9, { "a" })
      probe.job_prepare(job, 11)
      checkpoint(100, { "a" })
      damage(9)
      local found = probe.job_scan(s, dir .. "/visits")
      assert.same({ 9, "damaged" }, { found[1][1], found[1][2] })
      assert.matches("ECORRUPT: .*visits/chk%-9/_metadata", found[1][3])
      assert.same({ { 10, "valid" }, { 11, "nothing" }, { 100, "valid" } },
                  { found[2], found[3], found[4] })
    end)

    it("of an absent folder is empty", function()
      assert.same({}, probe.job_scan(s, dir .. "/none"))
    end)

    it("calls a checkpoint damaged whose files are not there, where asked for", function()
      checkpoint(1, { "a" })
      probe.storage_remove(s, dir .. "/visits/chk-1/a")
      assert.same({ { 1, "valid" } }, probe.job_scan(s, dir .. "/visits", false))
      local found = probe.job_scan(s, dir .. "/visits", true)
      assert.equal("damaged", found[1][2])
      assert.matches("ENOTFOUND: .*chk%-1/a", found[1][3])
    end)

    it("does not take one checkpoint for another", function()
      checkpoint(1, { "a" })
      assert(probe.storage_rename(s, dir .. "/visits/chk-1", dir .. "/visits/chk-2"))
      local found = probe.job_scan(s, dir .. "/visits")
      assert.same({ 2, "damaged" }, { found[1][1], found[1][2] })
      assert.matches("chk-2 holds the metadata of checkpoint 1", found[1][3], 1, true)
    end)

    it("calls what cannot be read damaged, never absent", function()
      checkpoint(1, { "a" })
      probe.storage_fault(s, "read", 0)
      assert.equal("damaged", probe.job_scan(s, dir .. "/visits")[1][2])
    end)
  end)

  describe("choose", function()
    local function choose(older, committed, with_files)
      return probe.job_choose(s, dir .. "/visits", older, committed, with_files)
    end

    it("325. takes the newest valid one; a folder without metadata is none at all", function()
      assert.is_false(choose(false, 0))
      probe.job_prepare(job, 3)
      assert.is_false(choose(false, 0))
      checkpoint(5, { "a" })
      checkpoint(6, { "a" })
      probe.job_prepare(job, 7)
      assert.equal(6, choose(false, 0))
      assert.equal(6, choose(false, 6))
      assert.equal(6, choose(false, "unknown"))
    end)

    it("passes a damaged one by itself only if nothing newer was committed", function()
      checkpoint(5, { "a" })
      checkpoint(6, { "a" })
      damage(6)
      assert.equal(5, choose(false, 0))
      assert.equal(5, choose(false, 5))
      for _, committed in ipairs { 6, "unknown" } do
        local id, message, code = choose(false, committed)
        assert.is_nil(id)
        assert.equal("ECORRUPT", code)
        assert.matches("checkpoint 6", message, 1, true)
        assert.matches("checkpoint 5", message, 1, true)
        assert.matches("chk-6/_metadata is damaged", message, 1, true) -- the cause
        assert.equal(5, choose(true, committed))
      end
    end)

    it("175. unreadable entry at start: never passes a newer one that only cannot be read now", function()
      checkpoint(5, { "a" })
      checkpoint(6, { "a" })
      local refused = 0
      for after = 0, 20 do
        probe.storage_fault(s, "read", after)
        local id, message, code = choose(false, 0)
        probe.storage_fault(s, nil)
        if not id then
          refused = refused + 1
          assert.equal("EIO", code)
          assert.matches("checkpoint 6 cannot be read now", message, 1, true)
          probe.storage_fault(s, "read", after)
          assert.equal(5, choose(true, 0))
          probe.storage_fault(s, nil)
        else
          assert.equal(6, id)
        end
      end
      assert.is_true(refused > 0)
    end)

    it("refuses where nothing valid is left, whatever it is told", function()
      checkpoint(6, { "a" })
      damage(6)
      for _, older in ipairs { false, true } do
        local id, message, code = choose(older, 0)
        assert.is_nil(id)
        assert.equal("ECORRUPT", code)
        assert.matches("checkpoint 6", message, 1, true)
      end
    end)

    it("treats a checkpoint of a newer program as one that may not be passed", function()
      checkpoint(5, { "a" })
      checkpoint(6, { "a" })
      newer_version(6)
      local id, message = choose(false, 6)
      assert.is_nil(id)
      assert.matches("version 9", message, 1, true)
    end)

    it("322. passes one whose files are missing only under the same rule", function()
      checkpoint(5, { "a" })
      checkpoint(6, { "a" })
      probe.storage_remove(s, dir .. "/visits/chk-6/a")
      assert.equal(5, choose(false, 5, true))
      local id, message = choose(false, 6, true)
      assert.is_nil(id)
      assert.matches("chk-6/a", message, 1, true)
      assert.equal(5, choose(true, 6, true))
    end)

    it("refuses an older one where a committed one is gone altogether", function()
      checkpoint(5, { "a" })
      local id, message, code = choose(false, 8)
      assert.is_nil(id)
      assert.equal("ENOTFOUND", code)
      assert.matches("checkpoint 8", message, 1, true)
      assert.matches("checkpoint 5", message, 1, true)
      assert.equal(5, choose(true, 8))
    end)
  end)

  describe("sweep", function()
    it("325. removes folders without metadata and temporary files, nothing else", function()
      checkpoint(5, { "a", "b" })
      probe.storage_make_dir(s, dir .. "/visits/chk-7/sub")
      for _, name in ipairs { "chk-7/a", "chk-7/sub/b", "chk-7/._metadata.tmp-3", "chk-5/.c.tmp-1",
                              ".ids.tmp-4", "log", "log.1", ".hidden", "chk-5/unlisted" } do
        tmp.write("visits/" .. name, "x")
      end
      for _, name in ipairs { "shared", "taskowned", "notes" } do
        probe.storage_make_dir(s, dir .. "/visits/" .. name)
        tmp.write(("visits/%s/.x.tmp-1"):format(name), "x")
      end
      assert.equal(5, probe.job_sweep(job))
      assert.same({ ".hidden", "chk-5/_metadata", "chk-5/a", "chk-5/b", "chk-5/unlisted", "log",
                    "log.1", "notes/.x.tmp-1", "shared/.x.tmp-1", "taskowned/.x.tmp-1" }, files())
      assert.same({ "chk-5" }, folders())
      assert.equal(0, probe.job_sweep(job))
      assert(tmp.read("visits/lock"))
    end)

    it("leaves a file alone that has a checkpoint's name, and sweeps beside it", function()
      tmp.write("visits/chk-9", "x")
      probe.job_prepare(job, 7)
      assert.equal(0, probe.job_sweep(job))
      assert.same({ "chk-9" }, files())
      assert.same({ "chk-9" }, folders())
    end)

    it("keeps what a valid metadata lists in an older folder", function()
      checkpoint(3, { "done", "other", "sub/deep" })
      checkpoint(9, { "a" }, { { "chk-3", "done" }, { "chk-3", "sub/deep" } })
      probe.storage_remove(s, dir .. "/visits/chk-3/_metadata")
      assert.equal(1, probe.job_sweep(job))
      assert.same({ "chk-3/done", "chk-3/sub/deep", "chk-9/_metadata", "chk-9/a" }, files())
    end)

    it("keeps a damaged checkpoint and all older folders: it may list files there", function()
      probe.job_prepare(job, 3)
      tmp.write("visits/chk-3/done", "x")
      checkpoint(5, { "a" })
      newer_version(5)
      probe.job_prepare(job, 6)
      tmp.write("visits/chk-6/a", "x")
      assert.equal(1, probe.job_sweep(job))
      assert.same({ "chk-3/done", "chk-5/_metadata", "chk-5/a" }, files())
    end)

    it("hands on errors of the disk, and removes nothing it has not looked at", function()
      checkpoint(5, { "a" })
      probe.job_prepare(job, 7)
      tmp.write("visits/chk-7/a", "x")
      for _, op in ipairs { "list", "remove" } do
        probe.storage_fault(s, op, 0)
        assert.equal("EIO", select(3, probe.job_sweep(job)), op)
        assert.same({ "chk-5/_metadata", "chk-5/a", "chk-7/a" }, files())
      end
    end)
  end)

  describe("delete", function()
    it("removes _metadata durably before anything else", function()
      checkpoint(5, { "a", "b" })
      probe.storage_log(s)
      assert.equal(0, probe.job_delete(job, 5))
      local done = {}
      for op, path in probe.storage_log(s):gmatch "(%S+) (%S+)\n" do
        if op:match "remove" or op == "sync_dir" then
          done[#done + 1] = op .. " " .. path:sub(#dir + 9)
        end
      end
      assert.same({ "remove chk-5/_metadata", "sync_dir chk-5", "remove chk-5/a", "remove chk-5/b",
                    "remove_dir chk-5", "sync_dir " }, done)
      assert.same({}, files())
      assert.same({}, folders())
    end)

    it("does nothing where nothing is, and takes an aborted one's files", function()
      assert.equal(0, probe.job_delete(job, 5))
      probe.job_prepare(job, 5)
      assert.equal(0, probe.job_delete(job, 5))
      probe.job_prepare(job, 5)
      tmp.write("visits/chk-5/a", "x")
      assert.equal(0, probe.job_delete(job, 5))
      assert.same({}, folders())
    end)

    it("keeps what another checkpoint lists, and takes it with the last that does", function()
      checkpoint(3, { "done", "other" })
      checkpoint(9, { "a" }, { { "chk-3", "done" } })
      checkpoint(10, { "a" }, { { "chk-3", "done" } })
      assert.equal(0, probe.job_delete(job, 3))
      assert.same({ "chk-10/_metadata", "chk-10/a", "chk-3/done", "chk-9/_metadata", "chk-9/a" },
                  files())
      assert.equal(0, probe.job_delete(job, 9))
      assert.same({ "chk-10/_metadata", "chk-10/a", "chk-3/done" }, files())
      assert.equal(0, probe.metadata_verify(s, dir .. "/visits/chk-10", dir .. "/visits",
                                            assert(probe.metadata_read(s, dir .. "/visits/chk-10")),
                                            true))
      assert.equal(0, probe.job_delete(job, 10))
      assert.same({}, files())
      assert.same({}, folders())
    end)

    it("takes a damaged one with its own folder only", function()
      checkpoint(3, { "done" })
      checkpoint(9, { "a" }, { { "chk-3", "done" } })
      damage(9)
      assert.equal(0, probe.job_delete(job, 9))
      assert.same({ "chk-3/_metadata", "chk-3/done" }, files())
    end)

    it("killed anywhere, never leaves metadata whose files are gone", function()
      for op in ("remove sync_dir remove_dir list kind"):gmatch "%S+" do
        for after = 0, 12 do
          checkpoint(3, { "done", "b" })
          checkpoint(9, { "a", "c" }, { { "chk-3", "done" } })
          checkpoint(10, { "a" }, { { "chk-3", "done" } })
          probe.storage_fault(s, op, after, true)
          local _ = probe.job_delete(job, 3) and probe.job_delete(job, 9)
          probe.storage_fault(s, nil)
          for _, found in ipairs(probe.job_scan(s, dir .. "/visits", true)) do
            assert.not_equal("damaged", found[2], op .. after)
          end
          assert(probe.job_sweep(job))
          assert.equal(10, probe.job_choose(s, dir .. "/visits", false, 10, true))
          assert(probe.storage_remove_tree(s, dir .. "/visits/chk-3"))
          assert(probe.storage_remove_tree(s, dir .. "/visits/chk-9"))
          assert(probe.storage_remove_tree(s, dir .. "/visits/chk-10"))
        end
      end
    end)

    it("discards the files of a snapshot that came too late", function()
      probe.job_prepare(job, 5)
      tmp.write("visits/chk-5/a", "x")
      tmp.write("visits/chk-5/b", "x")
      assert.equal(0, probe.job_discard(job, 5, { "a", "none" }))
      assert.same({ "chk-5/b" }, files())
      assert.equal(0, probe.job_discard(job, 5, { "b" }))
      assert.same({}, folders())
      assert.equal(0, probe.job_discard(job, 5, { "b" }))
    end)
  end)

  describe("rests of in-flight data", function()
    local FILE, OTHER = "chk-3/f", "chk-3/other"

    -- A checkpoint that keeps rests of in-flight data in older folders.
    local function with_rest(id, rests)
      local handles = {}
      for i, path in ipairs(rests) do
        local folder, file = path:match "(.*)/(.*)"
        local data = assert(tmp.read("visits/" .. path))
        handles[i] = { kind = 3, edge = 0, sender = 0, receiver = i, generation = 1, side = 0,
                       directory = folder, file = file, length = #data, checksum = xxh64(data),
                       offset = 0, bytes = 1 }
      end
      probe.job_prepare(job, id)
      assert(probe.metadata_write(s, dir .. "/visits/chk-" .. id, {
        id = id, job_id = "visits",
        operators = { { uid = "o", parallelism = 1, max_parallelism = 1,
                        subtasks = { { handles = handles } } } },
        edges = { { from = "a", output = "", to = "o", partitioner = "hash" } },
      }))
    end

    before_each(function() checkpoint(3, { "f", "other", "third" }) end)

    it("keep their file as long as any checkpoint lists it", function()
      with_rest(8, { FILE, OTHER, FILE })
      with_rest(9, { FILE })
      assert.equal(0, probe.job_delete(job, 3))
      assert.same({ FILE, OTHER, "chk-8/_metadata", "chk-9/_metadata" }, files())
      assert.equal(0, probe.job_delete(job, 8))
      assert.same({ FILE, "chk-9/_metadata" }, files())
      assert.equal(0, probe.job_delete(job, 9))
      assert.same({}, folders())
    end)

    it("survive a sweep, and what no checkpoint lists any more does not", function()
      with_rest(8, { OTHER })
      probe.storage_remove(s, dir .. "/visits/chk-3/_metadata") -- died in the middle of deleting it
      assert.equal(2, probe.job_sweep(job))
      assert.same({ OTHER, "chk-8/_metadata" }, files())
    end)

    it("stay where a snapshot that lists them came too late", function()
      assert.equal(0, probe.job_discard(job, 3, { { "chk-3", "f" }, "third" }))
      assert.same({ "chk-3/_metadata", FILE, OTHER }, files())
    end)
  end)
end)
