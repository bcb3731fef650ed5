-- What a process and its jobs owe each other: forks, and leaving.
local sc = require "streamckpt"
local probe = require "streamckpt.probe"
local temp_dir = require "support.temp_dir"

describe("a forked child", function()
  it("has handles that raise, and leaves without touching the job", function()
    local dir = temp_dir.create()
    local env = sc.env { name = "forked", log = { level = "error" },
                         checkpoint = { interval = "1h", dir = dir } }
    env:from_generator { count = 10, rate = 0.001, fn = function(i) return i end }:to(function() end)
    local job = assert(env:start())
    for _, method in ipairs { "checkpoint", "cancel", "status", "metrics", "wait" } do
      local text, code = probe.base_fork(function() return job[method](job) end)
      assert.matches("the job forked belongs to process %d+, which forked this one", text)
      assert.equal(0, code)
    end
    -- its lock, its threads and its checkpoints are as they were
    local id
    repeat id = job:checkpoint() until id
    job:cancel()
    assert.equal("canceled", job:wait("60s").state)
    temp_dir.remove(dir)
  end)
end)

describe("a process that leaves", function()
  local function script(text)
    local path, out = os.tmpname(), os.tmpname()
    local f = assert(io.open(path, "w"))
    f:write(text)
    f:close()
    local ok, _, code = os.execute(("lua5.4 %s >%s 2>&1"):format(path, out))
    f = assert(io.open(out))
    local said = f:read("a")
    f:close()
    os.remove(path)
    os.remove(out)
    return ok, code, said
  end

  -- A job whose map does `body` once it has said that it runs; `before` and `more` are around it.
  local function run(body, before, more)
    local up = os.tmpname()
    os.remove(up)
    local ok, code, said = script((before or "") .. [[

      local sc = require "streamckpt"
      local UP = "]] .. up .. [["
      local env = sc.env { name = "left", log = { level = "error" } }
      env:from_values { 1 }:map(function(v)
        io.open(UP, "w"):close()
        ]] .. body .. [[

        return v
      end):uid("loops"):to(function() end)
      local job = assert(env:start())
      while not io.open(UP) do job:wait("1ms") end
    ]] .. (more or ""))
    os.remove(up)
    return ok, code, said
  end

  it("takes its jobs down, also one whose function loops", function()
    local ok, _, said = run("while true do end")
    assert.is_true(ok, said)
    assert.equal("", said)
  end)

  it("names the task that hangs where nothing can stop it, and keeps its exit code", function()
    local _, code, said = run([[local _ = ("a"):rep(60):find(("a*"):rep(60) .. "b")]], nil,
                                "os.exit(7, true)")
    assert.equal(7, code)
    assert.matches("^streamckpt: job left does not end: it hangs in .*loops.* 1/1; " ..
                   "leaving without it\n$", said)
  end)

  it("has closed every job before finalizers of older objects run", function()
    local ok, _, said = run("", [[
      late = setmetatable({}, { __gc = function()
        io.stderr:write(tostring(select(2, pcall(JOB.checkpoint, JOB))), "\n")
      end })
    ]], "JOB = job")
    assert.is_true(ok, said)
    assert.matches("attempt to use a closed job\n$", said)
  end)
end)
