-- Files and folders that are not as a job needs them: one clear sentence, and nothing left behind.
local sc = require "streamckpt"
local trial = require "support.trial"

local function root() return io.popen("id -u"):read("n") == 0 end

local function options(dir, checkpoint)
  local all = { id = "bad", log = { level = "off" }, checkpoint = { interval = "1h", dir = dir .. "/ckpt" } }
  for name, value in pairs(checkpoint or {}) do all.checkpoint[name] = value end
  return all
end

-- A whole small job over the file `path`: what start says of it.
local function copy(dir, path, checkpoint, start)
  local env = sc.env(options(dir, checkpoint))
  env:from_file(path):uid("in"):to_file(dir .. "/out", { format = "lines" }):uid("out")
  return env:start(start)
end

local function refused(code, dir, ...)
  local job, message, got = copy(dir, ...)
  assert.is_nil(job)
  assert.equal(code, got)
  assert.matches("^" .. code .. ": [^\n]+$", message)
  return message
end

describe("bad input", function()
  local dir
  before_each(function() dir = trial.folder() end)
  after_each(trial.clean)

  it("a file that is missing, or a folder", function()
    assert.matches("there is no file .*/nothing to read from", refused("ENOTFOUND", dir, dir .. "/nothing"))
    assert.matches("is a folder", refused("EINVAL", dir, dir))
    trial.write(dir .. "/one", "a\n")
    assert.matches("/nothing", refused("ENOTFOUND", dir, { dir .. "/one", dir .. "/nothing" }))
    -- None of the refused starts holds the folder, or has put anything in the way of a good one.
    assert(trial.wait(assert(copy(dir, dir .. "/one"))))
    assert.same({ "a" }, (trial.lines(dir .. "/out")))
  end)

  it("a file that goes away while the job runs ends it, naming the file", function()
    trial.write(dir .. "/one", ("a\n"):rep(100000))
    trial.write(dir .. "/two", "b\n")
    local all = options(dir)
    all.restart = { strategy = "fixed_delay", attempts = 2, delay = 1 }
    local env = sc.env(all)
    local gate = dir .. "/gate"
    env:from_file { dir .. "/one", dir .. "/two" }:uid("in")
      :map(function(line)
        while not io.open(gate) do end
        return line
      end, { uid = "gate" }):disable_chaining()
      :to_file(dir .. "/out", { format = "lines" }):uid("out")
    local job = assert(env:start())
    trial.wait_for(job, function() return job:status().state == "running" end)
    os.remove(dir .. "/two")
    trial.write(gate)
    local status, message, code = trial.wait(job)
    assert.is_nil(status)
    -- Before a checkpoint it is a mistake, after one the checkpoint and the files no longer fit.
    assert.is_true(code == "ENOTFOUND" or code == "ESTATE", code)
    assert.matches("there is no file .*/two", message)
  end)

  it("a checkpoint folder that is a file, or cannot be made", function()
    trial.write(dir .. "/one", "a\n")
    trial.write(dir .. "/ckpt", "")
    assert.matches("/ckpt", refused("EEXIST", dir, dir .. "/one"))
    local message = select(2, copy(dir, dir .. "/one", { dir = "/proc/none" }))
    assert.matches("/proc/none", message)
    assert.same({}, trial.names(dir .. "/out"), "the sink's folder is looked at after the job's")
  end)

  it("a path to begin from that is no checkpoint: a folder of checkpoints, or nothing", function()
    trial.write(dir .. "/one", "a\n")
    assert(trial.wait(assert(copy(dir, dir .. "/one"))))
    for _, path in ipairs { dir .. "/ckpt/bad", dir .. "/nothing" } do
      local message = refused("ENOTFOUND", dir, dir .. "/one", nil, { from = path })
      assert.matches(path .. " is no checkpoint: from takes a folder such as", message, 1, true)
    end
  end)

  it("folders without permission to write", function()
    if root() then return pending("root may write everywhere") end
    trial.write(dir .. "/one", "a\n")
    trial.shell("mkdir", dir .. "/ckpt")
    trial.shell("chmod 555", dir .. "/ckpt")
    assert.matches("/ckpt", refused("EACCESS", dir, dir .. "/one"))
    trial.shell("chmod 755", dir .. "/ckpt")
    trial.shell("mkdir", dir .. "/out")
    trial.shell("chmod 555", dir .. "/out")
    assert.matches("/out cannot be written to", refused("EACCESS", dir, dir .. "/one"))
  end)

  it("a sink's folder that is a file", function()
    trial.write(dir .. "/one", "a\n")
    trial.write(dir .. "/out", "")
    assert.matches("/out is a file, but", refused("EEXIST", dir, dir .. "/one"))
  end)

  it("a sink's folder with what an earlier run has committed", function()
    trial.write(dir .. "/one", "a\n")
    assert(trial.wait(assert(copy(dir, dir .. "/one"))))
    local message = refused("EEXIST", dir, dir .. "/one")
    assert.matches("holds committed parts of an earlier run", message)
    assert.matches("overwrite", message)
    assert.same({ "a" }, (trial.lines(dir .. "/out")))
  end)

  -- A script of its own process, which may be limited by the shell; it starts a trial in `dir`.
  local function script(limits, text, background, streams)
    trial.write(dir .. "/script.lua", 'local trial = require "support.trial"\nlocal dir = ...\n' .. text)
    local command = ("%s; exec timeout 120 lua5.4 \"$0\" \"$1\" %s"):format(limits, streams or ">\"$1/said\" 2>&1")
    local _, _, code = os.execute(("sh -c %s %s %s %s"):format(trial.quote(command),
      trial.quote(dir .. "/script.lua"), trial.quote(dir), background and "&" or ""))
    return code, trial.read(dir .. "/said")
  end

  -- Files of at most 9 KiB are what a full disk is to a writer: of the two parts the second, of more than
  -- 10 KB, does not go through.
  it("a full disk: the job ends with that, nothing half-written counts, and it goes on once there is room", function()
    local code, said = script("ulimit -f 18", [[
      local job = assert(trial.start(dir, nil, trial.options(dir, { parallelism = 1, restart = { strategy = "none" } },
        { retain = 1 })))
      trial.held(job)
      assert(job:checkpoint())
      trial.go(dir)
      print(select(2, trial.wait(job)))
    ]])
    assert.equal(0, code, said)
    assert.matches("^E%u+: [^\n]*File too large", said)
    local committed = #trial.lines(dir .. "/out")
    assert.is_true(committed < #trial.expected())
    assert(trial.wait(assert(trial.start(dir, nil, nil, { from = "latest" }))))
    assert.same(trial.expected(), (trial.lines(dir .. "/out")))
  end)

  it("a checkpoint folder that another process uses, which is named", function()
    script("true", [[
      local job = assert(trial.start(dir))
      trial.held(job)
      local pid = io.open("/proc/self/stat"):read("n")
      trial.write(dir .. "/pid.new", tostring(pid))
      os.rename(dir .. "/pid.new", dir .. "/pid")
      trial.wait_for(job, function() return trial.exists(dir .. "/enough") end)
      trial.cancel(job)
      trial.write(dir .. "/ended")
    ]], true)
    local function await(name)
      trial.shell("timeout 60 sh -c 'until test -e \"$0\"; do sleep 0.01; done'", dir .. "/" .. name)
    end
    await("pid")
    local job, message, code = trial.start(dir, nil, nil, { from = "latest" })
    assert.is_nil(job)
    assert.equal("ELOCKED", code)
    assert.matches("in use by process " .. trial.read(dir .. "/pid"), message)
    trial.write(dir .. "/enough")
    await("ended")
  end)

  -- Descriptors are given out from the least free number on: without care the job's files and its wake-up
  -- would stand where the script prints.
  it("standard descriptors that are closed: what is printed goes into none of the job's files", function()
    script("true", [[
      local sc = require "streamckpt"
      local env = sc.env { id = "bad", checkpoint = { interval = 5, dir = dir .. "/ckpt" } }
      local numbers = env:from_generator { count = 5000, rate = 20000 }:uid("numbers")
      numbers:to_file(dir .. "/out", { format = "lines" }):uid("out")
      numbers:map(function(n) return { n = n } end):uid("map"):to(function(v)
        for _, file in ipairs { io.stdout, io.stderr } do
          file:write("printed by the script ", v.n, "\n")
          file:flush()
        end
      end):uid("printing")
      env:execute()
      local kinds = {}
      for fd = 0, 2 do kinds[fd + 1] = require("luv").fs_readlink("/proc/self/fd/" .. fd) end
      trial.write(dir .. "/ended", table.concat(kinds, " "))
    ]], false, "<&- >&- 2>&-")
    assert.equal("/dev/null /dev/null /dev/null", trial.read(dir .. "/ended"))
    assert.equal(5000, #trial.lines(dir .. "/out"))
    local found = io.popen("grep -rl 'printed by' " .. trial.quote(dir .. "/ckpt") .. " " .. trial.quote(dir .. "/out"))
    assert.equal("", found:read("a"))
  end)

  it("lines that do not parse, on a side output with file and line", function()
    trial.write(dir .. "/one", "1\n2\nthree\n4\n")
    trial.write(dir .. "/two", "five\n6\n")
    local env = sc.env { parallelism = 2, log = { level = "off" } }
    local parsed = env:from_file({ dir .. "/one", dir .. "/two" }, { position = true })
      :process { uid = "parse", on_element = function(ctx, line)
        local n = tonumber(line.text)
        if n then ctx:emit(n) else ctx:side("bad", ("%s:%d: %s"):format(line.file:match("[^/]+$"), line.line, line.text)) end
      end }
    parsed:collect():uid("good")
    parsed:side("bad"):collect():uid("bad")
    local result = env:execute()
    local good, bad = { table.unpack(result:rows("good")) }, { table.unpack(result:rows("bad")) }
    table.sort(good)
    table.sort(bad)
    assert.same({ 1, 2, 4, 6 }, good)
    assert.same({ "one:3: three", "two:1: five" }, bad)
    assert.equal(2, result:metrics("bad").numRecordsIn)
  end)

  it("a key that is nil or NaN ends the job, whatever the strategy", function()
    for _, value in ipairs { {}, { k = 0 / 0 } } do
      local all = options(dir)
      all.restart = { strategy = "fixed_delay", delay = 1 }
      local env = sc.env(all)
      env:from_generator { count = 1, fn = function() return value end }:uid("in")
        :key_by("k"):reduce(function(a) return a end):uid("sum"):collect():uid("out")
      local job = assert(env:start())
      local status, message, code = trial.wait(job)
      assert.is_nil(status)
      assert.equal("EKEY", code)
      assert.matches("key", message)
      assert.equal(0, job:status().restarts)
    end
  end)
end)
