-- The runner of these specs (spec/support/run.lua): whatever a spec file does, its last line counts
-- what really ran, and nothing that went wrong passes for a success.
local folder = require "support.folder"

local function fine(name) return ('it("%s", function() assert.is_true(true) end) '):format(name) end

describe("the runner of specs", function()
  local dir
  before_each(function() dir = folder.new() end)
  after_each(function() dir:remove() end)

  -- What the runner prints, its last line, and its exit status.
  local function run(options)
    local pipe = assert(io.popen(("lua5.4 spec/support/run.lua %s '%s' 2>&1; echo \"status $?\"")
      :format(options or "", dir.path)))
    local text = pipe:read("a")
    pipe:close()
    return text, text:match("([^\n]*)\nstatus %d+\n$"), tonumber(text:match("status (%d+)\n$"))
  end

  it("adds up files, and succeeds when nothing failed", function()
    dir:write("a_spec.lua", fine("one") .. fine("two"))
    dir:write("b_spec.lua", fine("three"))
    dir:write("helper.lua", 'error("not a spec")')
    local _, last, status = run("--jobs 2")
    assert.equals("3 passed, 0 failed, 0 skipped", last)
    assert.equals(0, status)
  end)

  it("counts failures and errors as failed, shows them, and names the file", function()
    dir:write("a_spec.lua", 'it("wrong", function() assert.equals("apple", "pear") end) '
      .. 'it("broken", function() error("a worm") end) ' .. fine("good"))
    local text, last, status = run()
    assert.equals("1 passed, 2 failed, 0 skipped", last)
    assert.equals(1, status)
    assert.matches("pear", text)
    assert.matches("a worm", text)
    assert.matches("Failed: [^\n]*a_spec%.lua\n", text)
  end)

  it("counts a skipped test and says why it was", function()
    dir:write("a_spec.lua", 'it("moon", function() pending("no rocket here") end)')
    local text, last, status = run()
    assert.equals("0 passed, 0 failed, 1 skipped", last)
    assert.equals(0, status)
    assert.matches("no rocket here", text)
  end)

  it("fails a file that cannot be read as Lua", function()
    dir:write("a_spec.lua", "it(")
    local _, last, status = run()
    assert.equals("0 passed, 1 failed, 0 skipped", last)
    assert.equals(1, status)
  end)

  it("fails a file whose process leaves or is killed, and runs the others", function()
    dir:write("a_spec.lua", 'it("leaves", function() os.exit(0) end)')
    dir:write("b_spec.lua", 'local uv = require "luv" '
      .. 'it("dies", function() uv.kill(uv.os_getpid(), "sigkill") end)')
    dir:write("c_spec.lua", fine("good"))
    local text, last, status = run()
    assert.equals("1 passed, 2 failed, 0 skipped", last)
    assert.equals(1, status)
    assert.matches("a_spec%.lua: its process ended with exit status 0 before", text)
    assert.matches("b_spec%.lua: its process was ended by signal 9 before", text)
  end)

  it("fails a file that passes, but whose process then does not end well", function()
    dir:write("a_spec.lua", 'keep = setmetatable({}, { __gc = function() os.exit(7) end }) '
      .. 'debug.getregistry().keep = keep ' .. fine("good"))
    local text, last, status = run()
    assert.equals("1 passed, 1 failed, 0 skipped", last)
    assert.equals(1, status)
    assert.matches("its process ended with exit status 7", text)
  end)

  it("fails a file without a test", function()
    dir:write("a_spec.lua", "-- nothing yet")
    local text, last, status = run()
    assert.equals("0 passed, 1 failed, 0 skipped", last)
    assert.equals(1, status)
    assert.matches("holds no test", text)
  end)

  it("ends a file at the limit, with what the file started", function()
    dir:write("a_spec.lua", ('it("waits", function() os.execute("sleep 100000 & echo $! > %s; wait") '
      .. "end)"):format(dir:at("pid")))
    local text, last, status = run("--limit 3")
    assert.equals("0 passed, 1 failed, 0 skipped", last)
    assert.equals(1, status)
    assert.matches("did not end within 3 seconds", text)
    -- Gone, or a zombie that nobody has waited for yet.
    local state = io.open("/proc/" .. dir:read("pid"):match("%d+") .. "/stat")
    assert.is_true(not state or state:read("a"):match("%) (%a)") == "Z")
    if state then state:close() end
  end)

  it("refuses a path without specs", function()
    local text, _, status = run()
    assert.equals(2, status)
    assert.matches("there is no %*_spec%.lua under", text)
  end)
end)
