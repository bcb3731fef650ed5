local folder = require "support.folder"
local pack = require "support.pack"
local probe = require "streamckpt.probe"

local storage = probe.operator_storage()

local function new(options)
  return assert(probe.operator_new {
    kind = "file_source", uid = "log", storage = storage,
    options = pack.encode(options or { paths = { "x" } }) })
end

local function reader(path, options)
  local op = new(options)
  assert(op:add_split(pack.encode { path = path }))
  return op
end

-- Poll until there is nothing to emit, or `limit` records.
local function drain(op, limit)
  local rows = {}
  while #rows < (limit or math.huge) do
    local what, item = op:poll()
    if not what then error(item) end
    if what == "idle" or what == "ended" then return rows, what end
    if what == "emit" then rows[#rows + 1] = pack.decode(item.bytes) end
  end
  return rows
end

-- What the lines of a text are, said in another way than in the code.
local function lines_of(text)
  local lines = {}
  if text == "" then return lines end
  if text:sub(-1) ~= "\n" then text = text .. "\n" end
  for line in text:gmatch("([^\n]*)\n") do lines[#lines + 1] = (line:gsub("\r$", "")) end
  return lines
end

describe("file_source", function()
  local tmp
  setup(function() tmp = folder.new() end)
  teardown(function() tmp:remove() end)

  it("has a split for each file", function()
    local splits = probe.operator_splits("file_source", pack.encode { paths = { "a", "b/c", "a" } })
    assert.same({ { path = "a" }, { path = "b/c" }, { path = "a" } }, pack.decode(splits))
  end)

  it("emits lines without their ends", function()
    for _, text in ipairs { "a\nb\n", "a\nb", "\n", "\n\n", "a\n\n\nb", "a\r\nb\r\n", "a\rb\n", "\r\n", "a\r",
      "a\r\r\n", "x", "\0\255\n\n" } do
      local path = tmp:write("lines", text)
      assert.same(lines_of(text), drain(reader(path)), ("%q"):format(text))
    end
  end)

  it("emits file and line with position, keys in the order of their bytes", function()
    local path = tmp:write("pos", "a\n\nb")
    local op = reader(path, { paths = { path }, position = true })
    local _, item = op:poll()
    assert.equal(pack.encode(pack.pairs { { "file", path }, { "line", 1 }, { "text", "a" } }), item.bytes)
    assert.same({ { file = path, line = 2, text = "" }, { file = path, line = 3, text = "b" } }, drain(op))
  end)

  it("asks for a split when it has none, and ends when there is none left", function()
    local op = new()
    assert.equal("idle", op:poll())
    assert.equal("idle", op:poll())
    assert.equal(2, op:asks())
    assert.equal(math.maxinteger, op:wake_at())
    op:add_split(pack.encode { path = tmp:write("one", "1\n") })
    op:no_more()
    local rows, why = drain(op)
    assert.same({ "1" }, rows)
    assert.equal("ended", why)
  end)

  it("301. empty input: no split, and a file without bytes", function()
    assert.same({}, pack.decode(probe.operator_splits("file_source", pack.encode { paths = pack.array {} })))
    local op = new { paths = pack.array {} }
    op:no_more()
    assert.equal("ended", op:poll())
    op = reader(tmp:write("empty", ""))
    op:no_more()
    assert.same({ {}, "ended" }, { drain(op) })
  end)

  it("302. empty split among others: it ends, and leaves no state", function()
    local op = new()
    for i, text in ipairs { "", "a\n", "", "b", "" } do
      op:add_split(pack.encode { path = tmp:write("f" .. i, text) })
    end
    op:no_more()
    assert.same({ { "a", "b" }, "ended" }, { drain(op) })
    assert.is_nil(op:snapshot(1):encode())
  end)

  it("goes on at the exact byte after a restore, wherever the snapshot was", function()
    local a, b = "one\r\n\ntwo", "\nthree\n"
    local pa, pb = tmp:write("ra", a), tmp:write("rb", b)
    local all = { "one", "", "two", "", "three" }
    for taken = 0, #all do
      local op = new()
      op:add_split(pack.encode { path = pa })
      op:add_split(pack.encode { path = pb })
      local rows = drain(op, taken)
      local lists = op:snapshot(1):encode()
      if lists then
        local again = new()
        assert.equal(0, again:restore(lists))
        for _, row in ipairs(drain(again)) do rows[#rows + 1] = row end
      end
      assert.same(all, rows)
    end
  end)

  it("keeps offset and line of each unfinished split", function()
    local pa, pb = tmp:write("sa", "12\r\n3\n4"), tmp:write("sb", "5")
    local op = new()
    op:add_split(pack.encode { path = pa })
    op:add_split(pack.encode { path = pb })
    drain(op, 2)
    local items = { { path = pa, offset = 6, line = 2 }, { path = pb, offset = 0, line = 0 } }
    assert.same({ splits = { 0, items } }, pack.decode(op:snapshot(1):encode()))
  end)

  it("counts lines on after a restore", function()
    local path = tmp:write("count", "a\nb\nc\n")
    local options = { paths = { path }, position = true }
    local op = reader(path, options)
    drain(op, 2)
    local again = new(options)
    again:restore(op:snapshot(1):encode())
    assert.same({ { file = path, line = 3, text = "c" } }, drain(again))
  end)

  it("reads as a naive model does, with restores in between", function()
    local seed = os.time()
    math.randomseed(seed)
    for round = 1, 15 do
      local parts = {}
      for i = 1, math.random(1, 60) do
        -- Now and then longer than the buffer, so that lines and their ends lie across reads.
        local n = math.random(8) == 1 and math.random(200000, 400000) or math.random(0, 50)
        parts[i] = ("x"):rep(n) .. (math.random(3) == 1 and "\r" or "")
      end
      local text = table.concat(parts, "\n") .. (math.random(2) == 1 and "\n" or "")
      local path = tmp:write("random", text)
      local rows, op = {}, reader(path)
      while op do
        for _, row in ipairs(drain(op, math.random(1, 20))) do rows[#rows + 1] = row end
        local lists = op:snapshot(1):encode()
        op = lists and new()
        if op then op:restore(lists) end
      end
      assert.same(lines_of(text), rows, "seed " .. seed .. ", round " .. round)
    end
  end)

  it("reads lines of many megabytes, but not beyond the limit", function()
    local max = 64 * 1024 * 1024
    local path = tmp:write("long", "first\n" .. ("y"):rep(max) .. "\r\nlast\n")
    local op = reader(path)
    local rows = drain(op)
    assert.equal(3, #rows)
    assert.equal(max, #rows[2])
    assert.equal("last", rows[3])
    path = tmp:write("long", "first\n" .. ("y"):rep(max + 1) .. "\nlast\n")
    op = reader(path)
    op:poll()
    local what, message, code = op:poll()
    assert.is_nil(what)
    assert.equal("ELIMIT", code)
    assert.matches("line 2 of " .. path, message, 1, true)
    tmp:write("long", "")
  end)

  it("refuses a file that shrank below its offset, with path, size and offset", function()
    local path = tmp:write("shrank", "aaaa\nbbbb\n")
    local op = reader(path)
    drain(op, 1)
    local lists = op:snapshot(1):encode()
    tmp:write("shrank", "aaa")
    local again = new()
    again:restore(lists)
    local what, message, code = again:poll()
    assert.is_nil(what)
    assert.equal("ESTATE", code)
    assert.matches(path .. " has 3 bytes, but reading goes on at byte 5", message, 1, true)
  end)

  it("refuses missing files and folders by name, before anything runs", function()
    local good, missing = tmp:write("good", "x\n"), tmp:at("missing")
    local function prepare(paths, fresh)
      local options = pack.encode { paths = paths }
      return probe.operator_prepare(storage, "file_source", options, "job", "log", not fresh and {} or nil)
    end
    assert.equal(0, prepare({ good }, true))
    local ok, message, code = prepare({ good, missing }, true)
    assert.is_nil(ok)
    assert.equal("ENOTFOUND", code)
    assert.matches(missing, message, 1, true)
    ok, message, code = prepare({ tmp.path }, true)
    assert.is_nil(ok)
    assert.equal("EINVAL", code)
    assert.matches(tmp.path .. " is a folder", message, 1, true)
    assert.equal(0, prepare({ missing }, false), "it may have been read to its end before the checkpoint")
  end)

  it("says which file went away after the start", function()
    local op = reader(tmp:at("gone"))
    local what, message, code = op:poll()
    assert.is_nil(what)
    assert.equal("ESTATE", code)
    assert.matches(tmp:at("gone"), message, 1, true)
  end)

  it("refuses damaged splits and states", function()
    for _, split in ipairs { {}, { path = 1 }, { path = "x", offset = -1 }, { path = "x", line = -1 } } do
      local ok, _, code = new():add_split(pack.encode(split))
      assert.is_nil(ok)
      assert.equal("ECORRUPT", code)
      ok, _, code = new():restore(pack.encode { splits = { 0, { split } } })
      assert.is_nil(ok)
      assert.equal("ECORRUPT", code)
    end
    local ok, _, code = new():restore("\x81\xa6splits\x92\x00\x92\x01")
    assert.is_nil(ok)
    assert.equal("ECORRUPT", code)
  end)

  it("refuses bad options by name", function()
    local function fails(options, text)
      local op, message, code = probe.operator_new {
        kind = "file_source", storage = storage, options = pack.encode(options) }
      assert.is_nil(op)
      assert.equal("EINVAL", code)
      assert.matches(text, message, 1, true)
    end
    fails({}, "option paths is missing")
    fails({ paths = "x" }, 'option paths must be an array, but it is "x"')
    fails({ paths = { "x", 7 } }, "entry 2 of paths is no path")
    fails({ paths = { "" } }, "entry 1 of paths is no path")
    fails({ paths = { "a\0b" } }, "entry 1 of paths is no path")
    fails({ paths = { "x" }, position = 1 }, "option position must be true or false, but it is 1")
    assert.is_nil((probe.operator_splits("file_source", pack.encode { paths = { 1 } })))
  end)
end)
