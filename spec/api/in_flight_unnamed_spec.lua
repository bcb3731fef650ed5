-- What was in flight between two operators for which the user named no exchange, restored where their
-- parallelisms have become equal: the edge was dealt by turns, and is straight on now, chained where it can
-- be. Again and again, with failures and checkpoints while it is unread.
local plain = require "support.plain_reader"
local trial = require "support.trial"
local sc = require "streamckpt"

local RECORDS, SPLITS = 1500, 4
local NUMBERS = { records = RECORDS, splits = SPLITS, keys = 7 }

describe("in-flight data of an edge without a named exchange", function()
  local dir
  before_each(function() dir = trial.folder() end)
  after_each(trial.clean)

  -- "numbers", and where o.two "others", too, to "slow", which takes 1 ms of its slot's time for a record
  -- while the file "go" is not there, and where o.ordered sees to the order of each split; then, where o.more,
  -- by turns to "more", which takes 3 ms; then to "out".
  local function start(o, from, fallback)
    local folder, ordered, last = dir, o.ordered, {}
    local env = sc.env {
      id = "trial", parallelism = o.from, slots = 2, log = { level = "off" },
      restart = { strategy = "fixed_delay", delay = 1, attempts = 5 }, network = { segment_size = 512 },
      checkpoint = { dir = dir .. "/ckpt", interval = "1h", sync = false, unaligned = true, retain = o.retain } }
    local stream = trial.numbers(env, "numbers", NUMBERS)
    if o.two then stream = stream:union(trial.numbers(env, "others", NUMBERS)) end
    local function hold(ctx, ms)
      local go, till = io.open(folder .. "/go"), ctx:now() + ms
      if go then go:close() else repeat until ctx:now() >= till end
    end
    stream = stream:map(function(v, ctx)
        hold(ctx, 1)
        if os.remove(folder .. "/broken") then error "broken while recovering" end
        local at = v.s .. "/" .. ctx.subtask
        if ordered and v.i <= (last[at] or 0) then error(("%d after %d of %s"):format(v.i, last[at], at)) end
        last[at] = v.i
        return ("%s %d"):format(v.s, v.i)
      end):uid("slow"):parallelism(o.slow)
    if o.more then
      stream = stream:rebalance():map(function(v, ctx) hold(ctx, 3) return v end):uid("more"):parallelism(o.slow)
    end
    stream:to_file(dir .. "/out", { format = "lines" }):uid("out"):parallelism(o.out)
    return env:start { from = from, fallback = fallback }
  end

  -- A checkpoint behind the next ten records of "slow": how many records are in flight to it, and the names
  -- of the job's tasks.
  local function checkpoint(job)
    local before
    trial.wait_for(job, function()
      local slow = job:status().state == "running" and job:metrics("slow")
      before = before or slow and slow.numRecordsIn
      return slow and (slow.numRecordsIn > before + 10 or slow.numRecordsIn < before)
    end)
    local folder = trial.chk(dir, (assert(job:checkpoint())))
    local body, kept, names = plain.metadata(folder), 0, {}
    for _, c in ipairs(plain.in_flight(folder, body)) do
      local edge = c.edge
      assert.same({ "rebalance", 0 }, { edge.partitioner, edge.ordinal })
      if edge.to == "slow" then
        for _, record in ipairs(c.records) do kept = kept + (record.kind == 0 and 1 or 0) end
      end
    end
    for i, task in ipairs(job:checkpoints().history[1].tasks) do names[i] = task.name end
    return kept, table.concat(names, " | ")
  end

  local function finish(job, sources, again)
    trial.write(dir .. "/go")
    local status, message = trial.wait(job)
    assert.equal("finished", assert(status, message).state)
    local seen, total = {}, 0
    for _, line in ipairs((trial.lines(dir .. "/out"))) do
      assert.is_true(again or not seen[line], line)
      total = total + (seen[line] and 0 or 1)
      seen[line] = true
    end
    assert.equal(sources * SPLITS * RECORDS, total)
  end

  local function broken(job)
    local restarts = job:status().restarts
    trial.write(dir .. "/broken")
    trial.wait_for(job, function() return job:status().restarts == restarts + 1 end)
  end

  it("is read first where it would be chained, in order, through failures and a checkpoint", function()
    local job = assert(start { from = 2, slow = 1, out = 1 })
    local kept, names = checkpoint(job)
    assert.is_true(kept > 50, "nothing was in flight")
    assert.equal("numbers | slow -> out", names)
    trial.cancel(job)
    job = assert(start({ from = 2, slow = 2, out = 1, ordered = true }, "latest"))
    broken(job) -- what is restored is still unread
    kept, names = checkpoint(job)
    assert.equal(0, kept) -- it waited until that was read
    assert.equal("numbers | slow | out", names)
    broken(job)
    checkpoint(job)
    trial.cancel(job)
    job = assert(start({ from = 2, slow = 2, out = 2, ordered = true }, "latest"))
    kept, names = checkpoint(job)
    assert.same({ 0, "numbers -> slow | out" }, { kept, names }) -- chained again; to "out" it is not
    trial.cancel(job)
    finish(assert(start({ from = 2, slow = 2, out = 2, ordered = true }, "latest")), 1)
  end)

  it("of an older checkpoint is read where the newest turns out to be damaged while it is restored", function()
    local o = { from = 2, slow = 1, out = 1, more = true, retain = 2 }
    local job = assert(start(o))
    assert.is_true(checkpoint(job) > 0, "nothing was in flight")
    trial.cancel(job)
    o.slow = 2
    job = assert(start(o, "latest"))
    assert.equal(0, (checkpoint(job)))
    trial.cancel(job)
    local ids = trial.checkpoints(dir)
    assert.equal(2, #ids)
    local newest = trial.chk(dir, ids[2])
    local files = trial.names(newest, "inflight$") -- to "more"
    assert.is_true(#files > 0)
    for _, name in ipairs(files) do trial.flip(newest .. "/" .. name, -2) end
    job = assert(start(o, "latest", "older"))
    trial.wait_for(job, function() return job:status().state == "running" end) -- more of it is read from then on
    finish(job, 1, true) -- what was committed since comes again, as it was told to
    assert.matches("is taken instead of the damaged checkpoint " .. ids[2], trial.log(dir), 1, true)
  end)

  it("is read first where the receiver has two inputs", function()
    local job = assert(start { from = 2, slow = 3, out = 1, two = true })
    assert.is_true(checkpoint(job) > 50, "nothing was in flight")
    trial.cancel(job)
    for _, o in ipairs { { from = 2, slow = 2, out = 2 }, { from = 1, slow = 2, out = 2 },
                         { from = 1, slow = 1, out = 3 }, { from = 2, slow = 1, out = 1 } } do
      o.two = true
      job = assert(start(o, "latest"))
      broken(job)
      local kept = checkpoint(job)
      assert.equal(o.from ~= o.slow, kept > 0)
      trial.cancel(job)
    end
    finish(assert(start({ from = 1, slow = 1, out = 1, two = true }, "latest")), 2)
  end)
end)

-- "short" ends at once, "long" when the file "go" is there: of two tasks in a row one is at the end of time while
-- the other has all its records before it.
describe("an edge without a named exchange, whose senders change their number", function()
  local dir
  before_each(function() dir = trial.folder() end)
  after_each(trial.clean)

  local function start(senders, from)
    local go = dir .. "/go"
    local env = sc.env { id = "trial", parallelism = 2, log = { level = "off" },
                         restart = { strategy = "none" }, checkpoint = { dir = dir .. "/ckpt", interval = "1h" } }
    env:source {
        uid = "numbers", splits = function() return { "short", "long" } end,
        read = function(ctx, split, at)
          at = (at or 0) + 1
          if at > (split == "short" and 3 or 100) then return nil end
          local file = at <= 3 or io.open(go)
          if not file then return at - 1, 2 end
          if file ~= true then file:close() end
          ctx:emit({ s = split, i = at }, at)
          return at
        end }:parallelism(senders)
      :watermarks { out_of_orderness = 1000 }:uid("time")
      :map(function(v, ctx)
        if ctx.watermark and ctx.watermark > v.i then error(("%s %d is late"):format(v.s, v.i)) end
        return ("%s %d"):format(v.s, v.i)
      end):uid("straight"):parallelism(2)
      :filter(function() return true end):start_new_chain():uid("behind"):parallelism(2)
      :to_file(dir .. "/out", { format = "lines" }):uid("out")
    return assert(env:start { from = from })
  end

  it("begins at no task ahead of what it is dealt", function()
    local job = start(2)
    local ended
    repeat
      trial.wait_for(job, function() return job:status().state == "running" end)
      ended = 0
      for _, op in ipairs(plain.metadata(trial.chk(dir, (assert(job:checkpoint())))).operators) do
        for _, task in ipairs(op.subtasks) do
          ended = ended + ((op.uid == "behind" and task["end"] or 0) > 0 and 1 or 0)
        end
      end
    until ended == 1
    trial.cancel(job)
    job = start(1, "latest")
    trial.write(dir .. "/go")
    local status, message = trial.wait(job)
    assert.equal("finished", assert(status, message).state)
    assert.equal(103, #trial.lines(dir .. "/out"))
  end)
end)
