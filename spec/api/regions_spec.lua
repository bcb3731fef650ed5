-- Two pipelines in one env that are not connected: what fails restarts alone, as a script sees it.
local sc = require "streamckpt"
local trial = require "support.trial"

local RECORDS, HOLD, BREAK = 60, 30, 45

-- One split of {i = 1} to RECORDS; behind record HOLD it goes on only where the file "go" is there.
local function source(env, dir, uid)
  return trial.source(env, { uid = uid, splits = { 1 }, records = RECORDS, hold = HOLD, go = dir .. "/go",
                             value = function(_, i) return { i = i } end })
end

-- Raises at record BREAK, but not where the file `mended` is there; `once` makes that file.
local function breaks(mended, once)
  local at = BREAK
  return function(value)
    if value.i ~= at then return end
    local file = io.open(mended)
    if file then file:close() return end
    if once then io.open(mended, "w"):close() end
    error("trouble at record " .. at)
  end
end

-- shaky: source-a -> tap-a, which may raise -> out-a; calm: source-b -> tap-b -> out-b, and seen. Each tap
-- writes how many calls its upvalue has counted.
local function build(env, dir, trouble)
  local calls_a, calls_b = 0, 0
  source(env, dir, "source-a")
    :map(function(value)
      calls_a = calls_a + 1
      trouble(value)
      return { i = value.i, calls = calls_a }
    end):uid("tap-a")
    :to_file(dir .. "/out-a"):uid("out-a")
  local calm = source(env, dir, "source-b")
    :map(function(value)
      calls_b = calls_b + 1
      return { i = value.i, calls = calls_b, of_the_other = calls_a }
    end):uid("tap-b")
  calm:to_file(dir .. "/out-b"):uid("out-b")
  calm:collect():uid("seen")
end

local function start(dir, trouble, options, from)
  local env = sc.env(trial.options(dir, options or {}))
  build(env, dir, trouble)
  return assert(env:start(from))
end

local function at(job, uid, n)
  trial.wait_for(job, function()
    local metrics = job:metrics(uid)
    return metrics and metrics.numRecordsIn == n
  end)
end

local function held(job)
  at(job, "tap-a", HOLD)
  at(job, "tap-b", HOLD)
end

-- Lines by i: {calls, how many lines}.
local function output(folder)
  local seen = {}
  for _, line in ipairs((trial.lines(folder))) do
    local calls, i = tonumber(line:match('"calls":(%d+)')), tonumber(line:match('"i":(%d+)'))
    assert.is_nil(seen[i], line)
    seen[i] = calls
  end
  return seen
end

local function counts(first, last, less)
  local list = {}
  for i = first, last do list[i] = i - less end
  return list
end

describe("of two pipelines the one that fails", function()
  local dir
  before_each(function() dir = trial.folder() end)
  after_each(trial.clean)

  it("restarts alone: the other one keeps what only its Lua state holds", function()
    local job = start(dir, breaks(dir .. "/mended", true), { parallelism = 1 })
    held(job)
    local id = assert(job:checkpoint())
    trial.go(dir)
    local status = assert(trial.wait(job))
    assert.equal("finished", status.state)
    assert.equal(1, status.restarts)
    assert.same({ { operators = { "source-a", "tap-a", "out-a" }, state = "ended", attempt = 2, restarts = 1 },
                  { operators = { "source-b", "tap-b", "out-b", "seen" }, state = "ended", attempt = 1,
                    restarts = 0 } }, status.regions)
    -- A restart begins with a Lua state of its own: tap-a counts from 1 again behind the checkpoint, which
    -- was at HOLD; tap-b never does.
    local a = output(dir .. "/out-a")
    for i = 1, HOLD do assert.equal(i, a[i]) end
    for i = HOLD + 1, RECORDS do assert.equal(i - HOLD, a[i]) end
    assert.equal(RECORDS, #a)
    assert.same(counts(1, RECORDS, 0), output(dir .. "/out-b"))
    local rows = {}
    for _, row in ipairs(job:rows("seen")) do rows[#rows + 1] = row.i end
    table.sort(rows)
    assert.same(counts(1, RECORDS, 0), rows)
    local log = trial.log(dir)
    assert.matches("region %(source%-a, tap%-a, out%-a%) failed, restarts in 1 ms, the rest runs on: ", log)
    assert.matches(("region %%(source%%-a, tap%%-a, out%%-a%%) recovered in %%d+ ms from [^\n]*chk%%-%d, after "
                    .. "EUSER: [^\n]*trouble at record 45"):format(id), log)
  end)

  it("waits for its restart while the other one runs to its end", function()
    local job = start(dir, breaks(dir .. "/mended", false),
                      { parallelism = 1, restart = { strategy = "fixed_delay", delay = "1h" } })
    held(job)
    local id = assert(job:checkpoint())
    trial.go(dir)
    trial.wait_for(job, function() return job:status().state == "restarting" end)
    at(job, "tap-b", RECORDS)
    local status = job:status()
    assert.equal("restarting", status.regions[1].state)
    assert.equal("running", status.regions[2].state)
    assert.matches(("^restarting, 1 restart, checkpoint %d, 1 of 2 regions run\nlast failure: "):format(id),
                   tostring(status))
    assert.equal("canceled", trial.cancel(job).state)
    -- What it had done since the checkpoint was not committed, and is done again: once, in all.
    trial.write(dir .. "/mended")
    job = start(dir, breaks(dir .. "/mended", false), { parallelism = 2, slots = 3 }, { from = "latest" })
    assert(trial.wait(job))
    assert.equal(RECORDS, #output(dir .. "/out-a"))
    assert.equal(RECORDS, #output(dir .. "/out-b"))
  end)

  it("ends both where it may not restart", function()
    local job = start(dir, breaks(dir .. "/mended", false), { restart = { strategy = "none" } })
    held(job)
    assert(job:checkpoint())
    trial.go(dir)
    local status, message = trial.wait(job)
    assert.is_nil(status)
    assert.matches("trouble at record 45", message)
    for _, region in ipairs(job:status().regions) do assert.equal("ended", region.state) end
    trial.write(dir .. "/mended")
    assert(trial.wait(start(dir, breaks(dir .. "/mended", false), nil, { from = "latest" })))
    assert.equal(RECORDS, #output(dir .. "/out-a"))
    assert.equal(RECORDS, #output(dir .. "/out-b"))
  end)

  it("shares no upvalue with the other, and sees its own only", function()
    trial.go(dir)
    local job = start(dir, function() end, { parallelism = 1 })
    assert(trial.wait(job))
    for _, line in ipairs((trial.lines(dir .. "/out-b"))) do assert.matches('"of_the_other":0', line) end
  end)

  it("says nothing of regions where all is connected", function()
    trial.go(dir)
    local job = assert(trial.start(dir))
    local status = assert(trial.wait(job))
    assert.is_nil(status.regions)
  end)
end)
