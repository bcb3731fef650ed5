-- What was in flight at a checkpoint, restored again and again while it is still unread: at other
-- parallelisms, with unions the other way round, after failures, from a copy, from damaged files.
local plain = require "support.plain_reader"
local trial = require "support.trial"
local sc = require "streamckpt"

local RECORDS, SPLITS = 900, 2
local NUMBERS = { records = RECORDS, splits = SPLITS, keys = 13, timestamped = true }

describe("in-flight data", function()
  local dir
  before_each(function() dir = trial.folder() end)
  after_each(trial.clean)

  -- straight and dealt: two sources, one by key, one by turns and then by key, both to "stage", which
  -- sees to the order of the straight one; then by turns to "slow", which takes 10 ms of the slot's time for
  -- each record while the file "go" is not there, then by key to "count".
  local function build(env, o)
    local folder = dir
    local straight = trial.numbers(env, "straight", NUMBERS)
    local dealt = trial.numbers(env, "dealt", NUMBERS):rebalance():map(function(v) return v end):uid("hands")
    local both = o.turned and dealt:union(straight) or straight:union(dealt)
    return both:key_by("k"):process {
        uid = "stage", state = { last = sc.map() },
        on_element = function(ctx, v)
          if v.s:sub(1, 1) == "s" then
            local last = ctx.state.last:get(v.s) or 0
            if v.i <= last then error(("%d after %d of %s, key %d"):format(v.i, last, v.s, v.k)) end
            ctx.state.last:set(v.s, v.i)
          end
          ctx:emit(v)
        end,
      }:parallelism(o.keyed)
      :rebalance():map(function(v)
        local go = io.open(folder .. "/go")
        if go then go:close() else require "luv".sleep(10) end
        local broken = io.open(folder .. "/broken")
        if broken then
          broken:close()
          os.remove(folder .. "/broken")
          error("broken while recovering")
        end
        return v
      end):uid(o.slow_uid or "slow")
      :key_by("k"):process {
        uid = "count", state = { n = sc.value() },
        on_element = function(ctx, v)
          local n = (ctx.state.n:get() or 0) + 1
          ctx.state.n:set(n)
          ctx:emit(("%d %d %s %d"):format(v.k, n, v.s, v.i))
        end,
      }:parallelism(o.keyed)
      :rebalance():to_file(dir .. "/out", { format = "lines" }):uid("out")
  end

  local function start(o, from)
    local checkpoint = { dir = dir .. "/ckpt", interval = "1h", retain = 1, sync = false, unaligned = true,
                         aligned_timeout = o.timeout, max_subtasks_per_channel_state_file = 2 }
    local env = sc.env { id = "trial", parallelism = o.p, slots = 2, log = { level = "off" },
                         restart = o.restart or { strategy = "none" }, network = { segment_size = 512 },
                         checkpoint = checkpoint }
    build(env, o)
    return env:start { from = from }
  end

  -- A checkpoint after "slow" has had something: its folder, its metadata, and how many records are in
  -- flight, by generation.
  local function checkpoint(job)
    trial.wait_for(job, function()
      local slow = job:status().state == "running" and job:metrics("slow")
      return slow and slow.numRecordsIn > 10
    end)
    local id = assert(job:checkpoint())
    local folder = trial.chk(dir, id)
    local body = plain.metadata(folder)
    local by, total = {}, 0
    for _, c in ipairs(plain.in_flight(folder, body)) do
      local n = 0
      for _, record in ipairs(c.records) do n = n + (record.kind == 0 and 1 or 0) end
      by[c.generation] = (by[c.generation] or 0) + n
      total = total + n
    end
    assert.is_true(total > 0, "nothing was in flight")
    local shown = job:checkpoints().history[1]
    assert.same({ id, true }, { shown.id, shown.persisted_data >= total })
    return folder, body, by
  end

  local function each_inflight(body, f)
    for _, op in ipairs(body.operators) do
      for _, task in ipairs(op.subtasks) do
        for _, h in ipairs(task.handles or {}) do
          if h.kind == 3 and h.file then f(h) end
        end
      end
    end
  end

  -- Every record once, and of each key n = 1 .. how many there are.
  local function finish(job)
    trial.write(dir .. "/go")
    local status, message = trial.wait(job)
    assert.equal("finished", assert(status, message).state)
    local seen, highest, counts, total = {}, {}, {}, 0
    for _, line in ipairs((trial.lines(dir .. "/out"))) do
      local k, n, record = line:match "^(%d+) (%d+) (.*)$"
      assert.is_nil(seen[record], line)
      seen[record], total = true, total + 1
      counts[k] = (counts[k] or 0) + 1
      highest[k] = math.max(highest[k] or 0, tonumber(n))
    end
    assert.equal(2 * SPLITS * RECORDS, total)
    assert.same(counts, highest)
    local files = {}
    for _, name in ipairs(trial.names(trial.job_folder(dir), "^chk%-")) do
      for _, file in ipairs(trial.names(trial.job_folder(dir) .. "/" .. name, "inflight$")) do
        files[#files + 1] = name .. "/" .. file
      end
    end
    assert.same({}, files)
  end

  it("is read once and in order, through restores at other parallelisms while it is unread", function()
    local job = assert(start { p = 2, keyed = 3 })
    local _, generations
    for round, o in ipairs { { p = 2, keyed = 3 }, { p = 3, keyed = 2 }, { p = 1, keyed = 4, turned = true },
                             { p = 2, keyed = 1 } } do
      checkpoint(job)
      _, _, generations = checkpoint(job)
      assert.is_true(generations[round] > 0)
      trial.cancel(job)
      job = assert(start(o, "latest"))
    end
    assert.is_true(generations[1] > 0, "nothing was kept again")
    finish(job)
  end)

  for _, timeout in ipairs { 1, 50 } do
    it("of a checkpoint that begins aligned, for " .. timeout .. " ms", function()
      local job = assert(start { p = 2, keyed = 2, timeout = timeout })
      checkpoint(job)
      trial.cancel(job)
      job = assert(start({ p = 1, keyed = 3, timeout = timeout }, "latest"))
      checkpoint(job)
      trial.cancel(job)
      finish(assert(start({ p = 3, keyed = 2, timeout = timeout }, "latest")))
    end)
  end

  it("is read again after a failure in the middle of it", function()
    local o = { p = 2, keyed = 2, restart = { strategy = "fixed_delay", delay = 1, attempts = 5 } }
    local job = assert(start(o))
    checkpoint(job)
    trial.cancel(job)
    job = assert(start(o, "latest"))
    for n = 1, 2 do -- before a checkpoint of the new run is complete, and after
      trial.write(dir .. "/broken")
      trial.wait_for(job, function() return job:status().restarts == n end)
      checkpoint(job)
    end
    finish(job)
  end)

  it("of a snapshot that is not the job's is copied by its first checkpoint, and stays whole", function()
    local job = assert(start { p = 2, keyed = 2 })
    local folder = checkpoint(job)
    trial.cancel(job)
    trial.shell("mkdir", dir .. "/other")
    trial.shell("mv", folder, dir .. "/other/mine")
    trial.shell("rm -rf", dir .. "/ckpt")
    local before = {}
    for _, name in ipairs(trial.names(dir .. "/other/mine")) do
      before[name] = trial.read(dir .. "/other/mine/" .. name)
    end
    job = assert(start({ p = 1, keyed = 3 }, dir .. "/other/mine"))
    local _, body, generations = checkpoint(job)
    assert.is_true(generations[1] > 0, "nothing was kept again")
    each_inflight(body, function(h) assert.is_nil(h.directory) end)
    for name, bytes in pairs(before) do assert.equal(bytes, trial.read(dir .. "/other/mine/" .. name)) end
    trial.cancel(job)
    trial.shell("rm -rf", dir .. "/other") -- nothing of the checkpoint lies there
    job = assert(start({ p = 2, keyed = 2 }, "latest"))
    _, body = checkpoint(job)
    local rests = 0
    each_inflight(body, function(h) rests = rests + (h.directory and 1 or 0) end)
    assert.is_true(rests > 0, "nothing was kept where it lies")
    trial.cancel(job)
  end)

  it("322, 323. that is missing, short or altered is named, and nothing begins without it", function()
    local job = assert(start { p = 2, keyed = 2 })
    local folder, body = checkpoint(job)
    trial.cancel(job)
    local file
    each_inflight(body, function(h) file = folder .. "/" .. h.file end)
    local whole = trial.read(file)
    for _, how in ipairs { "missing", "short", "altered" } do
      if how == "missing" then os.remove(file) end
      if how == "short" then trial.write(file, whole:sub(1, -2)) end
      if how == "altered" then trial.flip(file, -2) end
      local message
      job, message = start({ p = 2, keyed = 2 }, "latest")
      if job then _, message = trial.wait(job) end
      assert.equal(how == "altered", job ~= nil, how) -- lengths are looked at at once
      assert.matches(file, message, 1, true)
      trial.write(file, whole)
    end
    finish(assert(start({ p = 2, keyed = 2 }, "latest")))
  end)

  it("of an exchange that is gone refuses the restore, naming it and the way across", function()
    local job = assert(start { p = 2, keyed = 2 })
    checkpoint(job)
    trial.cancel(job)
    local other, message, code = start({ p = 2, keyed = 2, slow_uid = "renamed" }, "latest")
    assert.is_nil(other)
    assert.equal("ESTATE", code)
    for _, word in ipairs { "in flight from", '"slow"', "exchange", "savepoint" } do
      assert.matches(word, message, 1, true)
    end
    finish(assert(start({ p = 2, keyed = 2 }, "latest")))
  end)
end)
