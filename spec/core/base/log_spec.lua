local probe = require "streamckpt.probe"
local temp_dir = require "support.temp_dir"

-- 2026-11-30T03:15:45.123Z: `date -u -d 2026-11-30T03:15:45 +%s` says 1796008545.
local NOW, STAMP = 1796008545123, "2026-11-30T03:15:45.123Z"

local function text_of(path)
  local f = io.open(path, "rb")
  if not f then return nil end
  local text = f:read("a")
  f:close()
  return text
end

describe("log", function()
  local dir, path

  before_each(function()
    dir = temp_dir.create()
    path = dir .. "/log"
  end)

  after_each(function() temp_dir.remove(dir) end)

  local function file_log(level, max_bytes)
    local log = probe.log_new("off", NOW)
    assert(log:open(path, level or "info", max_bytes))
    return log
  end

  it("writes one line an event, with what is known of where it comes from", function()
    local log = file_log()
    log:write("info", "text", "visits", 1, 42, "visits (visits) 2/4")
    log:write("warn", "text", "visits", 3)
    log:write("error", "text", "visits")
    log:write("info", "text", nil, nil, nil, "main")
    log:write("info", "text")
    assert.equal(table.concat {
      STAMP, " INFO  [visits #1 chk 42] visits (visits) 2/4: text\n",
      STAMP, " WARN  [visits #3]: text\n",
      STAMP, " ERROR [visits]: text\n",
      STAMP, " INFO  main: text\n",
      STAMP, " INFO  text\n",
    }, text_of(path))
  end)

  it("gives stderr and the file each its own level", function()
    local err = dir .. "/stderr"
    probe.base_stderr_to(err, function()
      local log = probe.log_new("warn", NOW)
      assert(log:open(path, "info"))
      for _, level in ipairs { "debug", "info", "warn", "error" } do log:write(level, level) end
    end)
    assert.equal(STAMP .. " WARN  warn\n" .. STAMP .. " ERROR error\n", text_of(err))
    assert.equal(STAMP .. " INFO  info\n" .. STAMP .. " WARN  warn\n" .. STAMP .. " ERROR error\n",
                 text_of(path))
  end)

  it("appends to what an earlier run wrote", function()
    file_log():write("info", "first")
    file_log():write("info", "second")
    assert.equal(STAMP .. " INFO  first\n" .. STAMP .. " INFO  second\n", text_of(path))
  end)

  it("begins a new file at its limit and keeps two old ones", function()
    local line = #(STAMP .. " INFO  line 1\n")
    local log = file_log("info", 2 * line)
    for i = 1, 9 do log:write("info", "line " .. i) end
    local function lines(a, b)
      local t = {}
      for i = a, b do t[#t + 1] = STAMP .. " INFO  line " .. i .. "\n" end
      return table.concat(t)
    end
    assert.equal(lines(9, 9), text_of(path))
    assert.equal(lines(7, 8), text_of(path .. ".1"))
    assert.equal(lines(5, 6), text_of(path .. ".2"))
    assert.is_nil(text_of(path .. ".3"))
  end)

  it("counts what was there before against the limit", function()
    local line = #(STAMP .. " INFO  line 1\n")
    file_log("info", 2 * line):write("info", "line 1")
    local log = file_log("info", 2 * line)
    log:write("info", "line 2")
    log:write("info", "line 3")
    assert.equal(STAMP .. " INFO  line 3\n", text_of(path))
  end)

  it("writes a line that is longer than the limit whole", function()
    local log = file_log("info", 10)
    local long = ("x"):rep(5000)
    log:write("info", long)
    assert.equal(STAMP .. " INFO  " .. long .. "\n", text_of(path))
  end)

  it("names the file that cannot be opened", function()
    local log = probe.log_new("off", NOW)
    local _, message, code = log:open(dir .. "/absent/log", "info")
    assert.equal("ENOTFOUND", code)
    assert.matches(dir .. "/absent/log", message, 1, true)
    log:write("info", "goes nowhere")
  end)

  it("gives up a file that cannot be written, with one sentence", function()
    local full = io.open("/dev/full", "wb")
    if not full then return end
    full:close()
    local err = dir .. "/stderr"
    probe.base_stderr_to(err, function()
      local log = probe.log_new("error", NOW)
      assert(log:open("/dev/full", "info"))
      log:write("info", "a")
      log:write("info", "b")
    end)
    local text = text_of(err)
    assert.matches("^streamckpt: the log file /dev/full cannot be written %(.+%) and is given up\n$", text)
  end)

  it("knows its levels by name", function()
    for i, name in ipairs { "debug", "info", "warn", "error", "off" } do
      assert.equal(i - 1, probe.log_level(name))
    end
    assert.equal(-1, probe.log_level("loud"))
    assert.equal(-1, probe.log_level(""))
  end)
end)
