local folder = require "support.folder"
local pack = require "support.pack"
local probe = require "streamckpt.probe"

local tmp, storage, dir

local function options(extra)
  local o = { dir = dir }
  for k, v in pairs(extra or {}) do o[k] = v end
  return pack.encode(o)
end

local function new(extra)
  local o = { kind = "file_sink", storage = storage, options = options(), checkpointing = true }
  for k, v in pairs(extra or {}) do o[k] = v end
  return assert(probe.operator_new(o))
end

-- A sink of an attempt that begins now, fresh or with the lists of a checkpoint.
local function start(extra, lists)
  local op = new(extra)
  if lists then assert(op:restore(lists)) end
  assert(op:open())
  return op
end

-- past: the list states of all checkpoints, one for each old subtask; nil: none. Without any it is a
-- fresh start.
local function prepare(past, extra, job, uid, fresh)
  return probe.operator_prepare(storage, "file_sink", options(extra), job or "job", uid or "out", past,
    fresh)
end

local function push(op, ...)
  for _, v in ipairs { ... } do assert(op:push(pack.encode(v))) end
end

-- Checkpoint id up to its acknowledgement: its list states.
local function checkpoint(op, id)
  local parts = assert(op:snapshot(id))
  assert(parts:run())
  return parts:encode() or pack.encode {}
end

local function work(op) while op:work() do end end

local function complete(op, id)
  assert(op:complete(id))
  work(op)
  assert.is_nil(op:failed())
end

-- Contents of the files that readers look at, in the order of their names.
local function visible()
  local out = {}
  for _, name in ipairs(tmp:names()) do
    if name:sub(1, 1) ~= "." then out[#out + 1] = tmp:read(name) end
  end
  return table.concat(out)
end

local function hidden()
  local out = {}
  for _, name in ipairs(tmp:names()) do
    if name:sub(1, 1) == "." then out[#out + 1] = name end
  end
  return out
end

local function pending_ids(lists)
  local ids = {}
  local all = pack.decode(lists)
  for _, entry in ipairs(all.pending and all.pending[2] or {}) do ids[#ids + 1] = entry.id end
  return ids
end

describe("file_sink", function()
  setup(function() tmp = folder.new(); dir = tmp.path end)
  before_each(function() tmp:clear(); storage = probe.operator_storage() end)
  teardown(function() tmp:remove() end)

  describe("commits in two phases", function()
    it("282. order", function()
      local op = start()
      push(op, "a")
      assert.equal("", visible())
      checkpoint(op, 1)
      assert.same({ ".job.out.0000000001.0.pending" }, tmp:names())
      push(op, "b")
      complete(op, 1)
      assert.equal('"a"\n', visible())
      assert.same({ "job.out.0000000001.0.json" }, tmp:names())
      checkpoint(op, 2)
      assert.equal('"a"\n', visible())
      complete(op, 2)
      assert.equal('"a"\n"b"\n', visible())
      assert.same({ "job.out.0000000001.0.json", "job.out.0000000002.0.json" }, tmp:names())
    end)

    it("283. crash between durable and notice", function()
      local op = start()
      push(op, "t1")
      local lists = checkpoint(op, 1)
      push(op, "t2")
      checkpoint(op, 2) -- was never complete
      op:destroy()
      assert.equal(0, prepare { lists })
      assert.same({ ".job.out.0000000001.0.pending" }, hidden())
      local again = start({ attempt = 2, restored_id = 1 }, lists)
      assert.is_true(again:busy())
      work(again)
      assert.is_false(again:busy())
      assert.equal('"t1"\n', visible())
      assert.same({}, hidden())
    end)

    it("284. crash after commit, before ack of commit", function()
      local op = start()
      push(op, "t1")
      local lists = checkpoint(op, 1)
      op:complete(1)
      assert.is_true(op:work("run")) -- the commit is done, but nobody hears of it
      op:destroy()
      assert.equal('"t1"\n', visible())
      local again = start({ attempt = 2, restored_id = 1 }, lists)
      work(again)
      assert.is_nil(again:failed())
      assert.equal('"t1"\n', visible())
      assert.same({}, pending_ids(checkpoint(again, 2)))
    end)

    it("285. notification skipped", function()
      local op = start()
      push(op, "t1")
      checkpoint(op, 1)
      push(op, "t2")
      checkpoint(op, 2)
      storage:reset()
      complete(op, 2)
      assert.equal('"t1"\n"t2"\n', visible())
      assert.equal("rename job.out.0000000001.0.json\nrename job.out.0000000002.0.json\n" ..
        "sync_dir " .. dir:match("[^/]+$") .. "\n", storage:log())
    end)

    it("286. late notification", function()
      local op = start()
      push(op, "t1")
      checkpoint(op, 1)
      push(op, "t2")
      checkpoint(op, 2)
      complete(op, 2)
      complete(op, 1)
      complete(op, 2)
      assert.equal('"t1"\n"t2"\n', visible())
      push(op, "t3")
      checkpoint(op, 3)
      complete(op, 1)
      assert.equal('"t1"\n"t2"\n', visible())
    end)

    it("287. abort of checkpoint", function()
      local op = start()
      push(op, "t1")
      op:snapshot(1):drop() -- aborted before its work ran
      op:aborted(1)
      push(op, "t2")
      local lists = checkpoint(op, 2)
      assert.same({ 1, 2 }, pending_ids(lists))
      complete(op, 2)
      assert.equal('"t1"\n"t2"\n', visible())
      assert.same({}, hidden())
    end)

    it("288. several committables of one subtask: 4 subtasks to 2", function()
      local items, expected = {}, {}
      for subtask = 0, 3 do
        local op = start { subtask = subtask, parallelism = 4 }
        local lists
        for id = 1, 3 do
          push(op, subtask * 10 + id)
          expected[#expected + 1] = ("%d"):format(subtask * 10 + id)
          lists = checkpoint(op, id)
        end
        for _, entry in ipairs(pack.decode(lists).pending[2]) do items[#items + 1] = entry end
        op:destroy()
      end
      assert.equal(12, #items)
      for subtask = 0, 1 do
        local share = { table.unpack(items, subtask * 6 + 1, subtask * 6 + 6) }
        local op = start({ subtask = subtask, parallelism = 2, attempt = 2, restored_id = 3 },
          pack.encode { pending = { 0, share } })
        work(op)
        assert.is_nil(op:failed())
      end
      local rows = {}
      for row in visible():gmatch("%d+") do rows[#rows + 1] = row end
      table.sort(rows)
      table.sort(expected)
      assert.same(expected, rows)
      assert.same({}, hidden())
    end)

    it("290. rescale with id pool: what old subtasks had open goes, whoever is there now", function()
      local ops, lists = {}, {}
      for i = 0, 3 do
        ops[i] = start({ subtask = i, parallelism = 4 })
        push(ops[i], "promised" .. i)
        lists[i + 1] = checkpoint(ops[i], 1)
        push(ops[i], "never" .. i)
        checkpoint(ops[i], 2)
        push(ops[i], ("open"):rep(20000)) -- so much that it is written
      end
      assert.equal(4 + 4 + 4, #hidden())
      storage:die(1) -- nobody takes anything away
      for i = 0, 3 do ops[i]:destroy() end
      storage:reset()
      assert.equal(0, prepare(lists))
      local left = {}
      for i = 0, 3 do left[i + 1] = (".job.out.0000000001.%d.pending"):format(i) end
      assert.same(left, hidden())
    end)

    it("289. empty transaction", function()
      local op = start()
      local lists = checkpoint(op, 1)
      assert.same({}, pack.decode(lists))
      complete(op, 1)
      assert.same({}, tmp:names())
      push(op, "x")
      checkpoint(op, 2)
      complete(op, 2)
      checkpoint(op, 3)
      complete(op, 3)
      assert.same({ "job.out.0000000002.0.json" }, tmp:names())
    end)

    it("293. unknown outcome is an error", function()
      local op = start()
      push(op, "t1")
      local lists = checkpoint(op, 1)
      op:destroy()
      os.remove(tmp:at ".job.out.0000000001.0.pending")
      local again = start({ attempt = 2, restored_id = 1 }, lists)
      work(again)
      local message = again:failed()
      assert.matches("ESTATE: data was lost", message, 1, true)
      assert.matches(".job.out.0000000001.0.pending", message, 1, true)
      assert.matches("checkpoint 1", message, 1, true)
      assert.is_false(again:busy())
    end)

    it("commits restored parts before anything newer, in order", function()
      local op = start()
      push(op, "t1")
      checkpoint(op, 1)
      push(op, "t2")
      local lists = checkpoint(op, 2)
      op:destroy()
      local again = start({ attempt = 2, restored_id = 2 }, lists)
      push(again, "t3")
      checkpoint(again, 3)
      again:complete(3) -- while the restored ones are under way
      again:work()
      assert.equal('"t1"\n"t2"\n', visible())
      assert.is_true(again:busy())
      work(again)
      assert.equal('"t1"\n"t2"\n"t3"\n', visible())
      assert.is_false(again:busy())
    end)

    it("lists parts whose commit is under way: they are not done yet", function()
      local op = start()
      push(op, "t1")
      checkpoint(op, 1)
      op:complete(1)
      assert.same({ 1 }, pending_ids(checkpoint(op, 2)))
      work(op)
      assert.same({}, pending_ids(checkpoint(op, 3)))
    end)

    it("lets a part be committed by two attempts at once", function()
      local op = start()
      push(op, "t1")
      local lists = checkpoint(op, 1)
      op:complete(1) -- its work still waits in the pool when the attempt dies
      local again = start({ attempt = 2, restored_id = 1 }, lists)
      assert.is_true(op:work("run"))
      work(again)
      assert.is_nil(again:failed())
      assert.equal('"t1"\n', visible())
    end)

    it("never replaces a file that somebody else committed", function()
      local op = start()
      push(op, "mine")
      checkpoint(op, 1)
      tmp:write("job.out.0000000001.0.json", "theirs\n")
      op:complete(1)
      work(op)
      assert.matches("EEXIST", op:failed(), 1, true)
      assert.equal("theirs\n", visible())
      assert.same({ ".job.out.0000000001.0.pending" }, hidden())
    end)

    it("finds another name where ids begin anew in a folder that is appended to", function()
      tmp:write("job.out.0000000001.0.json", "old\n")
      tmp:write("job.out.0000000001.0-2.json", "older\n")
      local op = start()
      push(op, "new")
      checkpoint(op, 1)
      complete(op, 1)
      assert.equal('"new"\n', tmp:read "job.out.0000000001.0-3.json")
      assert.equal("old\n", tmp:read "job.out.0000000001.0.json")
    end)

    it("keeps nothing of a part that no checkpoint took", function()
      local op = start()
      push(op, ("x"):rep(100000))
      assert.equal(1, #hidden())
      op:destroy()
      assert.same({}, tmp:names())
    end)

    it("294. close and commit race: a work that outlives its operator does no harm", function()
      for _, how in ipairs { "before", "after" } do
        tmp:clear()
        local op = start()
        push(op, "t1")
        local parts = op:snapshot(1)
        if how == "before" then
          assert(parts:run())
          op:destroy()
        else
          op:destroy()
          assert(parts:run())
        end
        assert.same({ ".job.out.0000000001.0.pending" }, tmp:names())
        parts:drop()
      end
    end)
  end)

  describe("without checkpoints", function()
    it("commits one part at the end", function()
      local op = start { checkpointing = false, subtask = 3, parallelism = 4 }
      push(op, 1, 2)
      op:finish()
      assert.is_true(op:busy())
      work(op)
      assert.is_false(op:busy())
      assert.is_nil(op:failed())
      assert.equal("1\n2\n", visible())
      assert.same({ "job.out.0000000000.3.json" }, tmp:names())
    end)

    it("301. empty input makes no file", function()
      local op = start { checkpointing = false }
      op:finish()
      assert.is_false(op:busy())
      assert.same({}, tmp:names())
    end)

    it("leaves what is there when it appends", function()
      tmp:write("job.out.0000000000.0.json", "old\n")
      assert.equal(0, prepare(nil, { existing = "append" }))
      local op = start { checkpointing = false }
      push(op, "new")
      op:finish()
      work(op)
      assert.equal("old\n", tmp:read "job.out.0000000000.0.json")
      assert.equal('"new"\n', tmp:read "job.out.0000000000.0-2.json")
    end)

    it("commits what a savepoint took, too", function()
      local op = start { checkpointing = false }
      push(op, "a")
      checkpoint(op, 7)
      push(op, "b")
      op:finish()
      work(op)
      assert.is_nil(op:failed())
      assert.same({ "job.out.0000000000.0.json", "job.out.0000000007.0.json" }, tmp:names())
    end)
  end)

  it("with checkpoints, the end of input leaves the last part to the last checkpoint", function()
    local op = start()
    push(op, "tail")
    op:finish()
    assert.is_false(op:busy())
    assert.equal("", visible())
    checkpoint(op, 4)
    complete(op, 4)
    assert.equal('"tail"\n', visible())
  end)

  describe("writes", function()
    it("values as JSON, or strings as they are", function()
      local op = start()
      push(op, "x", { b = 1, a = "é" }, 2.0)
      assert(op:push(pack.encode { t = true }, nil, true))
      checkpoint(op, 1)
      complete(op, 1)
      assert.equal('"x"\n{"a":"é","b":1}\n2.0\n{"t":true}\n', visible())
      tmp:clear()
      op = start { options = options { format = "lines" } }
      push(op, "x \255\"", { 1 }, 3)
      checkpoint(op, 2)
      complete(op, 2)
      assert.same({ "job.out.0000000002.0.txt" }, tmp:names())
      assert.equal("x \255\"\n[1]\n3\n", visible())
    end)

    it("many records, in their order", function()
      local op, expected = start(), {}
      for i = 1, 30000 do
        op:push(pack.encode(i))
        expected[i] = i .. "\n"
      end
      checkpoint(op, 1)
      complete(op, 1)
      assert.equal(table.concat(expected), visible())
    end)

    it("fails the task when a write fails", function()
      local op = start()
      storage:fail("write", 1, "ENOSPACE")
      local ok, message, code = op:push(pack.encode(("x"):rep(70000)))
      assert.is_nil(ok)
      assert.equal("ENOSPACE", code)
      assert.matches("file_sink (out) 1/1 cannot write to folder " .. dir, message, 1, true)
    end)

    it("fails the task when the last write before a snapshot fails, or its file cannot be made", function()
      for _, operation in ipairs { "create", "write" } do
        local op = start()
        push(op, "x")
        storage:fail(operation, 1, "ENOSPACE")
        local parts, _, code = op:snapshot(1)
        assert.is_nil(parts)
        assert.equal("ENOSPACE", code)
      end
    end)

    it("292. write error is surfaced: the checkpoint is declined, the next one fails the task", function()
      for _, operation in ipairs { "sync", "rename", "sync_dir" } do
        tmp:clear()
        local op = start()
        push(op, "x")
        local parts = op:snapshot(1)
        storage:fail(operation, 1, "EIO")
        local ok, message, code = parts:run()
        assert.is_nil(ok)
        assert.equal("EIO", code)
        assert.matches("could not be made durable", message, 1, true)
        push(op, "y")
        local again
        again, message, code = op:snapshot(2)
        assert.is_nil(again, operation)
        assert.equal("EIO", code)
        assert.matches("injected", message, 1, true)
        assert.equal("", visible())
        parts:drop()
      end
    end)

    it("declines every checkpoint that was under way when a sync failed", function()
      local op = start()
      push(op, "x")
      local one = op:snapshot(1)
      push(op, "y")
      local two = op:snapshot(2)
      storage:fail("sync", 1, "EIO")
      assert.is_nil((two:run()))
      assert.is_nil((one:run()))
    end)

    it("makes a part durable once, whichever checkpoint's work runs first", function()
      local op = start()
      push(op, "x")
      local one = op:snapshot(1)
      push(op, "y")
      local two = op:snapshot(2)
      assert(two:run())
      storage:reset()
      assert(one:run())
      assert.equal("", storage:log())
      complete(op, 2)
      assert.equal('"x"\n"y"\n', visible())
    end)

    it("fails the task when a commit fails, and commits it in the next attempt", function()
      local op = start()
      push(op, "x")
      checkpoint(op, 1)
      push(op, "y")
      local lists = checkpoint(op, 2)
      storage:fail("rename", 2, "EACCESS")
      op:complete(2)
      work(op)
      assert.matches("EACCESS", op:failed(), 1, true)
      assert.equal('"x"\n', visible(), "a prefix")
      op:destroy()
      local again = start({ attempt = 2, restored_id = 2 }, lists)
      work(again)
      assert.equal('"x"\n"y"\n', visible())
    end)
  end)

  describe("prepare", function()
    it("makes the folder, with parents", function()
      local old = dir
      dir = old .. "/a/b"
      assert.equal(0, prepare())
      assert.same({ "b" }, tmp:names "a")
      dir = old
    end)

    it("refuses a file in the folder's place", function()
      local old = dir
      dir = tmp:write("file", "")
      local ok, message, code = prepare()
      assert.is_nil(ok)
      assert.equal("EEXIST", code)
      assert.matches(dir .. " is a file", message, 1, true)
      dir = old
    end)

    it("names a folder that cannot be written to, or cannot be made", function()
      storage:fail("create", 1, "EACCESS")
      local ok, message, code = prepare()
      assert.is_nil(ok)
      assert.equal("EACCESS", code)
      assert.matches("folder " .. dir .. " cannot be written to", message, 1, true)
      local old = dir
      dir = old .. "/new"
      storage:fail("make_dir", 1, "EACCESS")
      ok, message = prepare()
      assert.is_nil(ok)
      assert.matches("folder " .. dir .. " cannot be made", message, 1, true)
      dir = old
    end)

    it("refuses, at a fresh start, a folder with committed parts of this job and sink", function()
      tmp:write("job.out.0000000003.0.json", "old\n")
      local ok, message, code = prepare()
      assert.is_nil(ok)
      assert.equal("EEXIST", code)
      for _, text in ipairs { dir, "job.out.0000000003.0.json", '"overwrite"', '"append"' } do
        assert.matches(text, message, 1, true)
      end
      assert.equal(0, prepare {}, "a restored job goes on there")
      assert.equal(0, prepare(nil, { existing = "append" }))
      assert.equal("old\n", visible())
      assert.equal(0, prepare(nil, { existing = "overwrite" }))
      assert.same({}, tmp:names())
    end)

    it("refuses before it sweeps anything", function()
      tmp:write("job.out.0000000003.0.json", "old\n")
      tmp:write(".job.out.0000000004.0.pending", "x\n")
      assert.is_nil((prepare()))
      assert.same({ ".job.out.0000000004.0.pending" }, hidden())
    end)

    it("sweeps what no checkpoint names, and nothing of others", function()
      local others = { ".job.out2.0000000009.0.pending", ".job.out.x.pending", ".job.out.1.2.inprogress",
        ".jobx.out.0.1.0.inprogress", "job.out.notes", "job.out.0000000001.0.csv",
        "job.out.1.0.json", "readme" }
      local mine = { ".job.out.0.1.0.inprogress", ".job.out.12.3.45.inprogress" }
      local function fill()
        tmp:clear()
        for _, list in ipairs { others, mine } do
          for _, name in ipairs(list) do tmp:write(name, "x") end
        end
        for id = 4, 6 do tmp:write((".job.out.%010d.1.pending"):format(id), "x") end
        tmp:write("job.out.0000000002.0.json", "kept\n")
      end
      local function left()
        local gone = {}
        for _, name in ipairs(others) do assert.is_truthy(tmp:read(name), name) end
        for _, name in ipairs(mine) do assert.is_nil(tmp:read(name), name) end
        for id = 4, 6 do
          if not tmp:read((".job.out.%010d.1.pending"):format(id)) then gone[#gone + 1] = id end
        end
        return gone
      end
      fill()
      -- 4 was aborted and 5 promised by the second of two subtasks; what became of 4 is in no state.
      local promise = { id = 5, file = ".job.out.0000000005.1.pending", final = "job.out.0000000005.1.json" }
      local none = pack.encode {}
      assert.equal(0, prepare { none, pack.encode { pending = { 0, { promise } } }, none })
      assert.same({ 4, 6 }, left())
      assert.equal("kept\n", tmp:read "job.out.0000000002.0.json")
      fill()
      assert.equal(0, prepare(nil, { existing = "append" }))
      assert.same({ 4, 5, 6 }, left())
      assert.equal("kept\n", tmp:read "job.out.0000000002.0.json")
    end)

    it("keeps, at a fresh start too, what a checkpoint promises that stands, unless it overwrites", function()
      local promise = { id = 5, file = ".job.out.0000000005.0.pending", final = "job.out.0000000005.0.json" }
      local past = { pack.encode { pending = { 0, { promise } } } }
      for id = 4, 5 do tmp:write((".job.out.%010d.0.pending"):format(id), "x") end
      assert.equal(0, prepare(past, nil, nil, nil, true))
      assert.same({ promise.file }, hidden())
      assert.equal(0, prepare(past, { existing = "append" }, nil, nil, true))
      assert.same({ promise.file }, hidden())
      assert.equal(0, prepare(past, { existing = "overwrite" }, nil, nil, true))
      assert.same({}, hidden())
    end)

    it("takes ids of more than ten digits", function()
      tmp:write(".job.out.12345678901.0.pending", "x")
      local promise = { id = 12345678901, file = ".job.out.12345678901.0.pending", final = "f.json" }
      assert.equal(0, prepare { pack.encode { pending = { 0, { promise } } } })
      assert.equal(1, #hidden())
      assert.equal(0, prepare {})
      assert.equal(0, #hidden())
    end)

    it("refuses a state that it cannot read, before it sweeps anything", function()
      tmp:write(".job.out.0000000004.0.pending", "x")
      for _, lists in ipairs { "\xc1", pack.encode { pending = 3 } } do
        local ok, message, code = prepare { lists }
        assert.is_nil(ok)
        assert.equal("ECORRUPT", code)
        assert.matches("the list state 'pending' of out is damaged", message, 1, true)
      end
      assert.equal(1, #hidden())
    end)
  end)

  it("says what the highest committed checkpoint is", function()
    local function highest(job) return probe.operator_highest(storage, dir, job or "job", "out") end
    assert.equal(0, highest())
    tmp:write("job.out.0000000007.0.json", "")
    tmp:write("job.out.0000000012.3-2.txt", "")
    tmp:write(".job.out.0000000020.0.pending", "")
    tmp:write("other.out.0000000030.0.json", "")
    assert.equal(12, highest())
    assert.equal(30, highest "other")
    assert.equal(0, probe.operator_highest(storage, dir .. "/absent", "job", "out"))
    storage:die(1)
    prepare {}
    local id, _, code = highest()
    assert.is_nil(id)
    assert.equal("EIO", code)
  end)

  it("makes safe names of any job and uid, different ones of different texts", function()
    local seen = {}
    local names = { "a.b", "a_b", "a/b", "../x", "", "ä", ("n"):rep(300), ("n"):rep(301), "a b" }
    for _, job in ipairs(names) do
      tmp:clear()
      local op = start { job = job, uid = "u.v", checkpointing = false }
      push(op, 1)
      op:finish()
      work(op)
      assert.is_nil(op:failed())
      local list = tmp:names()
      assert.equal(1, #list)
      assert.matches("^[%w_-]+%.u_v%-%x%x%x%x%x%x%x%x%.0000000000%.0%.json$", list[1])
      assert.is_true(#list[1] < 255)
      assert.is_nil(seen[list[1]])
      seen[list[1]] = true
      local ok, _, code = prepare(nil, {}, job, "u.v")
      assert.is_nil(ok, "found again")
      assert.equal("EEXIST", code)
    end
    assert.is_truthy(seen["a_b.u_v-" .. next(seen):match("u_v%-(%x+)") .. ".0000000000.0.json"])
  end)

  it("refuses damaged states", function()
    local good = { id = 1, file = "f", final = "g" }
    for _, change in ipairs { { id = -1 }, { id = "x" }, { file = "" }, { file = "../f" }, { final = 1 },
      { final = "/etc/x" } } do
      local entry = { id = good.id, file = good.file, final = good.final }
      for k, v in pairs(change) do entry[k] = v end
      local ok, message, code = new():restore(pack.encode { pending = { 0, { entry } } })
      assert.is_nil(ok)
      assert.equal("ECORRUPT", code)
      assert.matches("file_sink (out) 1/1", message, 1, true)
    end
  end)

  it("refuses bad options by name", function()
    local function fails(o, text)
      local bytes = pack.encode(o)
      local op, message, code = probe.operator_new {
        kind = "file_sink", storage = storage, options = bytes }
      assert.is_nil(op)
      assert.equal("EINVAL", code)
      assert.matches(text, message, 1, true)
      assert.is_nil((probe.operator_prepare(storage, "file_sink", bytes, "job", "out")))
    end
    fails({}, "option dir is missing")
    fails({ dir = 1 }, "option dir must be a string")
    fails({ dir = dir, format = "csv" }, 'option format must be "json" or "lines", but it is "csv"')
    fails({ dir = dir, existing = "keep" }, 'must be "refuse" or "overwrite" or "append", but it is "keep"')
  end)
end)
