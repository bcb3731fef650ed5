-- At the prompt: a session that is typed into a terminal. (README's is typed by readme_spec.)
local folder = require "support.folder"
local terminal = require "support.terminal"
local uv = require "luv"

local LIMIT_MS = 60000

-- The lines that begin a job of which all can be asked.
local function begun(more)
  local lines = {
    [[env = sc.env { name = "clicks", parallelism = 2, checkpoint = { interval = 20, dir = "ckpt" } }]],
    [[clicks = env:from_generator { rate = 2000, fn = function(i) return { user = i % 3, n = 1 } end }:uid("clicks")]],
    [[function add(a, b) return { user = a.user, n = a.n + b.n } end]],
    [[clicks:key_by("user"):reduce(add):uid("sums"):collect():uid("seen")]],
    [[job = env:start()]],
  }
  return table.move(more, 1, #more, #lines + 1, lines)
end

describe("the prompt", function()
  local f
  before_each(function() f = folder.new() end)
  after_each(function() f:remove() end)

  -- What each of the lines after those of begun showed.
  local function session(more, last)
    local shown, result = terminal.session(f.path, begun(more), last)
    assert.is_nil(result.late, result.stdout)
    assert.equals("streamckpt.sink<collect 'seen'>", shown[4])
    for _, i in ipairs { 1, 2, 3, 5 } do assert.equals("", shown[i]) end
    return table.move(shown, 6, #shown, 1, {}), result
  end

  local function newest()
    local id = 0
    for _, name in ipairs(f:names("ckpt/clicks")) do
      local n = tonumber(name:match("^chk%-(%d+)$"))
      if n and f:read("ckpt/clicks/" .. name .. "/_metadata") then id = math.max(id, n) end
    end
    return id
  end

  -- Nothing is typed until three more checkpoints have completed: they have when a fourth lies there, which
  -- is written only once the job has heard that the one before is.
  local function three_more()
    local from = newest()
    for _ = 1, LIMIT_MS // 5 do
      if newest() >= from + 4 then return end
      uv.sleep(5)
    end
    error("no checkpoint came while the prompt waited")
  end

  it("has the job at once, which goes on while it waits", function()
    local shown, result = session {
      { "job:checkpoint()", after = three_more }, "job:status()", "job", "job:checkpoints()", "job:metrics()",
      [[job:metrics("sums").numRecordsIn > 0]], [[job:checkpoints().counts.failed]], [[#job:rows("seen") > 0]],
    }
    assert.matches("^%d+$", shown[1])
    local last = tonumber(shown[2]:match("^running, checkpoint (%d+)$"))
    assert.is_true(last >= tonumber(shown[1]) + 3, shown[2])
    assert.matches("^streamckpt.job<clicks, running, checkpoint %d+>$", shown[3])
    assert.matches("^checkpoints: %d+ completed.*\n *id  status +begun +took +state  tasks  where, or why not\n",
                   shown[4])
    -- The last ten, newest first.
    local ids = {}
    for line in shown[4]:gmatch("[^\n]+") do ids[#ids + 1] = tonumber(line:match("^ *(%d+)  %a")) end
    assert.is_true(#ids >= 4 and #ids <= 10)
    for i = 2, #ids do assert.equals(ids[i - 1] - 1, ids[i]) end
    local tasks = {}
    for line in shown[5]:gmatch("[^\n]+") do
      local uid, task = line:match("^(%a+) +(%d/%d) +%d+ +%d+")
      if uid then tasks[#tasks + 1] = uid .. " " .. task end
    end
    table.sort(tasks)
    assert.same({ "clicks 1/2", "clicks 2/2", "seen 1/2", "seen 2/2", "sums 1/2", "sums 2/2" }, tasks)
    assert.same({ "true", "0", "true" }, { shown[6], shown[7], shown[8] })
    assert.same({ 0, 0 }, { result.code, result.signal })
  end)

  it("explains a wrong call, and goes on", function()
    local wrong = {
      { "job:chekpoint()", "a job has no method 'chekpoint'; did you mean 'checkpoint'?" },
      { "job.status()", "status is called on nil; write job:status(...), with a colon" },
      { "job:wait('soon')", "wait takes a duration" },
      { "job:on('chekpoint', print)", "did you mean 'checkpoint'?" },
      { "job:metrics(3)", "metrics takes the uid of an operator, got 3" },
      { "job:rows()", "rows needs the uid of a collect, got nil" },
      { "sc.env { nam = 1 }", "did you mean 'name'?" },
      { "env:from_fil('x')", "did you mean 'from_file'?" },
      { "env:from_values {1}:map(3)", "map needs a function, got 3" },
      { "clicks:key_by()", "key_by" },
      { "job:savepoint()", "job:savepoint is not built yet" },
    }
    local lines = {}
    for i, case in ipairs(wrong) do lines[i] = case[1] end
    for _, line in ipairs { "job:rows('nobody')", "env:start()", "job:checkpoint() > 0", "job:status().state",
                            "job:cancel()", "job:wait()", "job:checkpoint()" } do
      lines[#lines + 1] = line
    end
    local shown, result = session(lines)
    for i, case in ipairs(wrong) do
      assert.matches(case[2], shown[i], 1, true)
      -- It speaks of what was typed, not of the library's own lines.
      assert.not_matches("%.lua:%d", shown[i]:match("^[^\n]*"), nil, case[1])
    end
    local n = #wrong
    assert.equals("nil\tENOTFOUND: no collect has the uid 'nobody'\tENOTFOUND", shown[n + 1])
    assert.matches("^nil\tELOCKED: .*\tELOCKED$", shown[n + 2]) -- its folder is in use by the job that runs
    assert.same({ "true", "running", "true" }, { shown[n + 3], shown[n + 4], shown[n + 5] })
    assert.matches("^canceled, checkpoint %d+$", shown[n + 6])
    assert.equals("nil\tEDECLINED: the job has ended (canceled)\tEDECLINED", shown[n + 7])
    assert.same({ 0, 0 }, { result.code, result.signal })
  end)

  it("shows an error of a job's function, and can start a better one", function()
    local shown = session {
      "job:cancel()", "bad = sc.env { name = 'bad', log = { level = 'off' } }",
      "bad:from_values { 1 }:map(function(v) return v.x.y end):uid('broken'):collect():uid('rows')",
      "print((select(2, bad:start():wait())))", "bad:execute()",
      "good = sc.env { name = 'good' }",
      "good:from_values { 1, 2 }:map(function(v) return v * 2 end):collect():uid('rows')",
      "good:execute():rows('rows')",
    }
    assert.matches("^EUSER: broken %(broken%) 1/1: stdin:1: attempt to index a number value", shown[4])
    assert.matches("^job 'bad' failed: EUSER: broken", shown[5])
    assert.equals("{ 2, 4 }", shown[8])
  end)

  it("ends a wait at Ctrl-C, and the job goes on", function()
    local pressed
    local shown, result = session {
      [[off = job:on("checkpoint", function(e) print("checkpoint " .. e.id) end)]],
      { "job:wait()", during = function(write)
        if not pressed then
          pressed = true
          write("\3")
        end
      end },
      "off()", { "job:status().state", after = three_more }, "job:cancel()", "job:wait().state",
    }
    assert.matches("interrupted!\nstack traceback:", shown[2])
    assert.equals("running", shown[4])
    assert.equals("canceled", shown[6])
    assert.same({ 0, 0 }, { result.code, result.signal })
  end)

  for name, last in pairs { ["the end of its input"] = "\4", ["os.exit"] = "os.exit()\n",
                            ["os.exit that closes the state"] = "os.exit(true, true)\n" } do
    it("is left with a job that runs, by " .. name, function()
      local _, result = session({ "job:checkpoint()" }, last)
      assert.same({ 0, 0 }, { result.code, result.signal })
      assert.not_matches("does not end", result.stdout)
      -- Nothing was cut off: it goes on from there.
      local shown = terminal.session(f.path, (function()
        local lines = begun { "job:status().restored_from", "job:cancel()" }
        lines[5] = [[job = env:start { from = "latest" }]]
        return lines
      end)())
      assert.matches("^ckpt/clicks/chk%-%d+$", shown[6])
    end)
  end

  it("is left with its status", function()
    local _, result = session({ "job:checkpoint()" }, "os.exit(7)\n")
    assert.same({ 7, 0 }, { result.code, result.signal })
  end)
end)
