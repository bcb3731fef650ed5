-- What users do to a job's files between and during its runs. Each ends in one clear sentence, nothing
-- is lost, and what can be mended goes on as if nothing had been.
local folder = require "support.folder"
local main_job = require "support.main_job"

describe("examples/visits.lua", function()
  local dir, run, size, expected

  before_each(function()
    dir = folder.new()
    run = { log = dir:at("log"), out = dir:at("out"), ckpt = dir:at("ckpt"), interval = "5ms" }
    assert.equals(0, main_job.script("make_log.lua", { run.log, "80000", "11" }).code)
    size = #dir:read("log")
    expected = main_job.expected(run.log)
  end)
  after_each(function() dir:remove() end)

  -- Kill it in the middle: checkpoints are behind it, and most of the log is not.
  local function kill_in_the_middle()
    local result = main_job.visits(run, 2, function(process)
      if process.read > size / 4 and #main_job.names(run.out) > 3 then process.kill() end
    end)
    assert.equals(9, result.signal, "it was over before it could be killed")
  end

  -- It ends by itself, with status 1 and this on stderr.
  local function fails(...)
    local result = main_job.visits(run, 3)
    assert.equals(1, result.code, result.stdout)
    for _, text in ipairs { ... } do assert.matches(text, result.stderr, 1, true) end
    return result.stderr
  end

  local function goes_on()
    local result = main_job.visits(run, 3)
    assert.equals(0, result.code, result.stderr)
    assert.is_nil(main_job.wrong(run, expected))
  end

  it("refuses a second process, and names the first", function()
    local message, pid
    local first = main_job.visits(run, 2, function(process)
      if message or process.read < size / 4 then return end
      pid = process.pid
      local pipe = io.popen(("'%s' examples/visits.lua '%s' '%s' '%s' 2>&1")
        :format(os.getenv("LUA") or "lua5.4", run.log, run.out, run.ckpt))
      message = pipe:read("a")
      pipe:close()
    end)
    assert.equals(0, first.code, first.stderr)
    assert.matches(("did not start: ELOCKED: %s/visits/lock is in use by process %d\n")
      :format(run.ckpt, pid), message, 1, true)
    assert.is_nil(main_job.wrong(run, expected))
  end)

  it("says that a log is gone, and goes on when it is back", function()
    kill_in_the_middle()
    os.rename(run.log, dir:at("elsewhere"))
    fails("there is no file " .. run.log .. " any more, and reading goes on at its byte ", "[log (log) ")
    os.rename(dir:at("elsewhere"), run.log)
    goes_on()
  end)

  it("says that a log was cut, and goes on when it is whole again", function()
    kill_in_the_middle()
    local whole = dir:read("log")
    dir:write("log", whole:sub(1, 1000))
    fails(run.log .. " has 1000 bytes, but reading goes on at byte ", "the file was changed")
    dir:write("log", whole)
    goes_on()
  end)

  it("reads what was added to a log since", function()
    local whole = dir:read("log")
    -- The first 30000 lines, so that a run is killed within them, and then all.
    local cut = 0
    for _ = 1, 30000 do cut = whole:find("\n", cut + 1, true) end
    dir:write("log", whole:sub(1, cut))
    main_job.visits(run, 2, function(process) if process.read > cut / 2 then process.kill() end end)
    dir:write("log", whole)
    goes_on()
  end)

  it("says that output which was to be committed is gone", function()
    kill_in_the_middle()
    local log = dir:read("ckpt/visits/log")
    assert.equals(0, select(2, log:gsub("ERROR", "")), log)
    os.execute(("rm -rf '%s'"):format(run.out))
    fails("data was lost: folder " .. run.out, ".pending, which belongs to checkpoint ")
    -- Nothing was taken for whole, and nothing begun anew.
    assert.same({}, main_job.committed(run.out))
  end)

  it("refuses to begin anew over output when the checkpoints are gone", function()
    kill_in_the_middle()
    os.execute(("rm -rf '%s'"):format(run.ckpt))
    local before = #main_job.committed(run.out)
    fails("EEXIST: folder " .. run.out, "holds committed parts of an earlier run")
    assert.equals(before, #main_job.committed(run.out))
  end)

  it("names a file in place of a folder", function()
    dir:write("out", "a file")
    fails(run.out, "Not a directory")
    assert.equals("a file", dir:read("out"))
    run.out, run.ckpt = dir:at("out-2"), dir:at("ckpt-2")
    dir:write("ckpt-2", "a file")
    fails(run.ckpt, "File exists")
    assert.equals("a file", dir:read("ckpt-2"))
  end)

  it("sweeps what a killed run left, and nothing else", function()
    kill_in_the_middle()
    dir:write("out/notes.txt", "of the user")
    dir:write("out/.visits.out.7.99.0.inprogress", "half a li")
    dir:write("out/.other.out.0.1.0.inprogress", "of another job")
    local result = main_job.visits(run, 4)
    assert.equals(0, result.code, result.stderr)
    assert.equals("of the user", dir:read("out/notes.txt"))
    assert.equals("of another job", dir:read("out/.other.out.0.1.0.inprogress"))
    assert.is_nil(dir:read("out/.visits.out.7.99.0.inprogress"))
    os.remove(dir:at("out/notes.txt"))
    os.remove(dir:at("out/.other.out.0.1.0.inprogress"))
    assert.is_nil(main_job.wrong(run, expected))
  end)
end)

-- A small file system of its own, where this may be had: as root, with a mount namespace.
describe("a full disk", function()
  local dir, small

  before_each(function()
    dir = folder.new()
    small = dir:at("small")
    os.execute(("mkdir '%s'"):format(small))
  end)
  after_each(function()
    os.execute(("umount '%s' 2>/dev/null"):format(small))
    dir:remove()
  end)

  local function mounted()
    if os.execute(("mount -t tmpfs -o size=1m tmpfs '%s' 2>/dev/null"):format(small)) then return true end
    pending("skipped: a small file system cannot be mounted here")
  end

  -- It fails, and waits to try again: then there is room.
  local function recovers(run, name)
    local log = dir:at("log")
    assert.equals(0, main_job.script("make_log.lua", { log, "60000", "5" }).code)
    dir:write("small/fill", ("x"):rep(1000 * 1000))
    local full = false
    local result = main_job.visits(run, 2, function()
      if full then return end
      local text = dir:read(name .. "/visits/log")
      if text and text:find("No space left on device", 1, true) then
        full = true
        os.remove(dir:at("small/fill"))
        os.execute(("mount -o remount,size=64m '%s'"):format(small))
      end
    end)
    assert.is_true(full)
    assert.equals(0, result.code, result.stderr)
    assert.is_nil(main_job.wrong(run, main_job.expected(log)))
  end

  it("of the output is waited out, and nothing is lost or twice", function()
    if not mounted() then return end
    recovers({ log = dir:at("log"), out = small .. "/out", ckpt = dir:at("ckpt"), interval = "20ms" }, "ckpt")
  end)

  it("of the checkpoints is waited out, and nothing is lost or twice", function()
    if not mounted() then return end
    -- The log of the job lies there, too: what it says is looked for in the folder that has room.
    local run = { log = dir:at("log"), out = dir:at("out"), ckpt = small .. "/ckpt", interval = "20ms" }
    assert.equals(0, main_job.script("make_log.lua", { run.log, "60000", "5" }).code)
    local file = dir:write("small/fill", ("x"):rep(960 * 1000))
    local kept = false
    local result = main_job.visits(run, 2, function(process)
      if not kept and process.read > 8000000 then kept = os.remove(file) end
    end)
    assert.equals(0, result.code, result.stderr)
    assert.matches("ENOSPACE: ", result.stderr, 1, true)
    assert.is_nil(main_job.wrong(run, main_job.expected(run.log)))
  end)
end)
