-- Scenarios U: what a script sees when its input ends, with real files.
local p = require "support.pipeline"
local sc = require "streamckpt"

after_each(p.clean)

local function read_file(path)
  local file <close> = io.open(path)
  return file and file:read("a")
end

-- Names of a folder's committed parts, without the folder.
local function part_names(folder)
  local names = {}
  for i, path in ipairs(p.files(folder, "%.%a+$")) do names[i] = path:match("[^/]+$") end
  return names
end

describe("the end of input", function()
  it("296, 297. final checkpoint: what came after the last one is committed with the next id", function()
    local folder = p.folder()
    local job = p.start(p.checkpointing(folder), function(env)
      p.gated(env, folder, { "a", "b", "c" }):to_file(folder .. "/out"):uid("out")
    end)
    p.let(folder, 2)
    p.wait_for(job, function() return job:metrics("out").numRecordsIn == 2 end)
    local first = assert(job:checkpoint())
    p.let(folder, "end")
    assert.equal("finished", assert(p.wait(job)).state)
    assert.same({ '"a"', '"b"', '"c"' }, p.parts(folder .. "/out"))
    -- No number that stands for "the last": readers see the checkpoint's own.
    assert.same({ ("spec.out.%010d.0.json"):format(first), ("spec.out.%010d.0.json"):format(first + 1) },
      part_names(folder .. "/out"))
    assert.equal(first + 1, job:status().last_checkpoint)
  end)

  it("296. waits for its final checkpoint, as often as that takes, with more time each time", function()
    local folder = p.folder()
    local options = p.checkpointing(folder)
    options.checkpoint.interval, options.checkpoint.timeout = 10, 1
    -- Writing this takes more than a millisecond, on any machine that is not asleep.
    local rows = {}
    for i = 1, 40 do rows[i] = { k = i, pad = ("x"):rep(100000) } end
    local job = p.start(options, function(env)
      env:from_values(rows):key_by("k"):process {
        uid = "keep", state = { v = sc.value() },
        on_element = function(ctx, e) ctx.state.v:set(e.pad) ctx:emit(e.k) end,
      }:to_file(folder .. "/out"):uid("out")
    end)
    assert.equal("finished", assert(p.wait(job)).state)
    assert.equal(40, #p.parts(folder .. "/out"))
    local log = p.read(folder .. "/ckpt/spec/log")
    if log:find("the checkpoint expired", 1, true) then
      assert.matches("WARN  %[spec #1 chk %d+%]: the job ends with its final checkpoint, which is tried again in "
        .. "%d+ ms and given %d+ ms: checkpoint%.timeout = 1 ms is too short", log)
    end
  end)

  it("299. different end times: what has ended stays so in later checkpoints, and over a restore", function()
    local folder = p.folder()
    local note = p.noter(folder)
    -- Each split has three values and ends when its file is there.
    local function build(env)
      return env:source {
        uid = "three", splits = function()
          note("splits", "asked")
          return { 1, 2, 3 }
        end,
        read = function(ctx, split, at)
          at = at or 0
          if at == 0 then note("begun", split) end
          if at < 3 then
            ctx:emit(split * 10 + at)
            return at + 1
          end
          if read_file(folder .. "/end" .. split) then
            note("ended", split)
            return nil
          end
          return at, 1
        end,
      }
    end
    local options = p.checkpointing(folder, { parallelism = 3 })
    options.checkpoint.retain = 100
    local job = p.start(options, build)
    local ids = {}
    for split = 1, 2 do
      p.write(folder .. "/end" .. split, "x")
      p.wait_for(job, function() return select(2, (read_file(folder .. "/ended") or ""):gsub("\n", "")) == split end)
      ids[split] = assert(job:checkpoint())
    end
    assert.equal("running", job:status().state)
    job:cancel()
    p.wait(job)

    p.write(folder .. "/end3", "x")
    local rows = p.sorted(options, build, { from = ("%s/ckpt/spec/chk-%d"):format(folder, ids[2]) })
    -- Rows of the first run were released by its checkpoints, to itself: nothing comes again.
    assert.same({}, rows)
    assert.equal("asked\n", read_file(folder .. "/splits"))
    local begun = {}
    for split in read_file(folder .. "/begun"):gmatch("%d") do begun[#begun + 1] = split end
    table.sort(begun)
    assert.equal("123", table.concat(begun))
    local _, ended = read_file(folder .. "/ended"):gsub("\n", "")
    assert.equal(3, ended)
  end)

  it("301. empty input: a final checkpoint, no file, and a complete job", function()
    local folder = p.folder()
    local function build(env)
      env:from_values({}):uid("none"):to_file(folder .. "/out"):uid("out")
    end
    local result = p.run(p.checkpointing(folder), build)
    assert.same({ "finished", 1 }, { result:status().state, result:status().last_checkpoint })
    assert.same({}, part_names(folder .. "/out"))
    assert.is_true(p.run(p.checkpointing(folder), build, { from = "latest" }):status().was_complete)
  end)

  it("303. stop position edge cases: 0 is a position, and what is dropped at the end hangs nothing", function()
    for stop, expected in pairs { [0] = {}, [6] = { 1, 2, 3 } } do
      local folder = p.folder()
      assert.same(expected, p.rows(p.checkpointing(folder), function(env)
        return env:source {
          uid = "bounded", splits = function() return { { stop = stop } } end,
          read = function(ctx, split, at)
            at = at or 0
            if at >= split.stop then return nil end
            -- The second half are entries that give nothing.
            if at < 3 then ctx:emit(at + 1) end
            return at + 1
          end,
        }:filter(function(v) return v < 4 end)
      end))
    end
  end)

  it("305. checkpointing off: all is committed, and nobody waits for a checkpoint", function()
    local folder = p.folder()
    local result = p.run({}, function(env) env:from_values({ 1, 2 }):to_file(folder .. "/out"):uid("out") end)
    assert.same({ "finished", 0 }, { result:status().state, result:checkpoints().counts.triggered })
    assert.same({ "1", "2" }, p.parts(folder .. "/out"))
  end)

  it("306. all finished at restore: it ends at once, and emits nothing again", function()
    local folder = p.folder()
    local note = p.noter(folder)
    local function build(env)
      env:from_values({ 1, 2 }):uid("v")
        :map(function(v) note("seen", v) return v end, { uid = "m" })
        :to_file(folder .. "/out"):uid("out")
    end
    p.run(p.checkpointing(folder), build)
    local before = part_names(folder .. "/out")
    for _ = 1, 3 do
      local status = p.run(p.checkpointing(folder), build, { from = "latest" }):status()
      assert.same({ "finished", true }, { status.state, status.was_complete })
    end
    assert.same(before, part_names(folder .. "/out"))
    assert.equal("1\n2\n", read_file(folder .. "/seen"))
  end)

  it("with after_tasks_finish = false: no checkpoint while only some have ended, then the final one", function()
    local folder = p.folder()
    local options = p.checkpointing(folder)
    options.checkpoint.after_tasks_finish = false
    local job = p.start(options, function(env)
      local short = env:from_values({ "short" }):uid("short")
      p.gated(env, folder, { "long" }):union(short):to_file(folder .. "/out"):uid("out")
    end)
    p.let(folder, 1)
    p.wait_for(job, function() return job:metrics("out").numRecordsIn == 2 end)
    -- The short source has ended, or is about to.
    local message, code
    p.wait_for(job, function()
      local id
      id, message, code = job:checkpoint()
      return not id and message:find("after_tasks_finish", 1, true)
    end)
    assert.equal("EDECLINED: no checkpoint was taken: not all tasks that it needs are running: only some tasks have "
      .. "ended, and with checkpoint.after_tasks_finish = false none is taken before all have", message)
    assert.equal("EDECLINED", code)
    local _, why = job:stop()
    assert.matches("only some tasks have ended", why, 1, true)
    assert.matches("WARN  %[spec #1%]: no checkpoint is taken for now: only some tasks have ended",
      p.read(folder .. "/ckpt/spec/log"))
    assert.equal("running", job:status().state)
    p.let(folder, "end")
    assert.equal("finished", assert(p.wait(job)).state)
    assert.same({ '"long"', '"short"' }, p.parts(folder .. "/out"))
    assert.is_true(p.start(options, function(env)
      local short = env:from_values({ "short" }):uid("short")
      p.gated(env, folder, { "long" }):union(short):to_file(folder .. "/out"):uid("out")
    end, { from = "latest" }):wait("1min").was_complete)
  end)
end)
