-- In-flight data as a script sees it: an unaligned checkpoint of a job that has read all there is, most of
-- which is still on its way, and what goes on from there.
local trial = require "support.trial"
local sc = require "streamckpt"

local RECORDS, KEYS = 400, 40

describe("a restore of in-flight data", function()
  local dir
  before_each(function() dir = trial.folder() end)
  after_each(trial.clean)

  -- The count takes a ms a record until "go" is there; the source ends when "end" is.
  local function start(parallelism, unaligned, from)
    local folder, keys, records = dir, KEYS, RECORDS
    local env = sc.env {
      id = "flight", parallelism = parallelism, log = { level = "off" }, restart = { strategy = "none" },
      checkpoint = { dir = dir .. "/ckpt", interval = "1h", unaligned = unaligned } }
    env:source {
      uid = "numbers", splits = function() return { 0 } end,
      read = function(ctx, _, at)
        at = (at or 0) + 1
        if at <= records then
          ctx:emit { k = at % keys }
          return at
        end
        local file = io.open(folder .. "/end")
        if not file then return at - 1, 1 end
        file:close()
      end }
      :key_by("k"):map(function(v) return v end):uid("stage")
      :key_by("k"):process {
        uid = "count", state = { n = sc.value() },
        on_element = function(ctx, v)
          local file = io.open(folder .. "/go")
          if file then file:close() else require "luv".sleep(1) end
          local n = (ctx.state.n:get() or 0) + 1
          ctx.state.n:set(n)
          ctx:emit { k = v.k, n = n }
        end }
      :to_file(dir .. "/out"):uid("out")
    return assert(env:start { from = from })
  end

  local function expected()
    local lines = {}
    for k = 0, KEYS - 1 do
      for n = 1, RECORDS // KEYS do lines[#lines + 1] = ('{"k":%d,"n":%d}'):format(k, n) end
    end
    table.sort(lines)
    return lines
  end

  for _, parallelism in ipairs { 2, 1, 3 } do
    it("goes on with aligned checkpoints, at parallelism " .. parallelism .. " after 2", function()
      local job = start(2, true)
      trial.wait_for(job, function()
        return job:metrics("numbers").numRecordsOut == RECORDS and job:metrics("count").numRecordsIn > 10
      end)
      assert(job:checkpoint())
      assert.is_true(job:checkpoints().latest.completed.persisted_data > 0, "nothing was in flight")
      local path = job:status().last_checkpoint_path
      trial.cancel(job)
      job = start(parallelism, false, path)
      -- Its barriers have nothing but recovered data before them.
      for _ = 1, 2 do assert(job:checkpoint()) end
      trial.write(dir .. "/go")
      trial.write(dir .. "/end")
      assert.equal("finished", assert(trial.wait(job)).state)
      assert.same(expected(), (trial.lines(dir .. "/out")))
    end)
  end
end)
