-- Tasks that have both kinds of inputs, those that checkpoints capture and broadcast, which they align:
-- again and again at other parallelisms, with what is in flight, and with failures in between.
local plain = require "support.plain_reader"
local trial = require "support.trial"
local sc = require "streamckpt"

local RECORDS, KEYS, SPLITS = 1500, 14, 2
local NUMBERS = { records = RECORDS, splits = SPLITS, keys = KEYS }

describe("in-flight data beside broadcast", function()
  local dir
  before_each(function() dir = trial.folder() end)
  after_each(trial.clean)

  -- dealt and told, the one by turns, the other to every task, of which one alone lets it through; while
  -- the file "go" is not there a record takes "mixed" a ms of its slot's time.
  local function start(parallelism, from)
    local folder = dir
    local env = sc.env {
      id = "trial", parallelism = parallelism, slots = 2, log = { level = "off" },
      restart = { strategy = "fixed_delay", delay = 1, attempts = 5 }, network = { segment_size = 512 },
      checkpoint = { dir = dir .. "/ckpt", interval = "1h", sync = false, unaligned = true } }
    trial.numbers(env, "dealt", NUMBERS):rebalance():union(trial.numbers(env, "told", NUMBERS):broadcast())
      :process { uid = "mixed", on_element = function(ctx, v)
        local go = io.open(folder .. "/go")
        if go then go:close() else require "luv".sleep(1) end
        local broken = os.remove(folder .. "/broken")
        if broken then error "broken while recovering" end
        if v.s:sub(1, 1) == "d" or ctx.subtask == 0 then ctx:emit(v) end
      end }
      :key_by("k"):process {
        uid = "count", state = { n = sc.value() },
        on_element = function(ctx, v)
          local n = (ctx.state.n:get() or 0) + 1
          ctx.state.n:set(n)
          ctx:emit(("%d %d %s %d"):format(v.k, n, v.s, v.i))
        end }
      :to_file(dir .. "/out", { format = "lines" }):uid("out")
    return assert(env:start { from = from })
  end

  local function checkpoint(job)
    trial.wait_for(job, function()
      local mixed = job:status().state == "running" and job:metrics("mixed")
      return mixed and mixed.numRecordsIn > 10
    end)
    local folder, kept = trial.chk(dir, (assert(job:checkpoint()))), 0
    for _, c in ipairs(plain.in_flight(folder, plain.metadata(folder))) do kept = kept + #c.records end
    assert.is_true(kept > 0, "nothing was in flight")
  end

  it("240. each number once, at parallelism 7, 2 and 7 again, with failures in between", function()
    local job = start(7)
    for round, parallelism in ipairs { 2, 7, 2, 7 } do
      checkpoint(job)
      if round % 2 == 0 then
        trial.write(dir .. "/broken")
        trial.wait_for(job, function() return job:status().restarts == 1 end)
        checkpoint(job)
      end
      trial.cancel(job)
      job = start(parallelism, "latest")
    end
    trial.write(dir .. "/go")
    local status, message = trial.wait(job)
    assert.equal("finished", assert(status, message).state)
    local seen, highest, total = {}, {}, 0
    for _, line in ipairs((trial.lines(dir .. "/out"))) do
      local k, n, record = line:match "^(%d+) (%d+) (.*)$"
      assert.is_nil(seen[record], line)
      seen[record], total = true, total + 1
      highest[k] = math.max(highest[k] or 0, tonumber(n))
    end
    assert.equal(2 * SPLITS * RECORDS, total)
    for k, n in pairs(highest) do
      local each = (RECORDS - tonumber(k)) // KEYS + (k == "0" and 0 or 1)
      assert.equal(2 * SPLITS * each, n, k)
    end
  end)
end)
