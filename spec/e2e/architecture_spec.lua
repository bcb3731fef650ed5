-- ARCHITECTURE.md leads into the code by names: of functions, and of files. A name that is gone leads
-- nowhere.
local function read(path)
  local file <close> = assert(io.open(path))
  return file:read("a")
end

local function lines_of(command)
  local out = {}
  local pipe <close> = assert(io.popen(command))
  for line in pipe:lines() do out[#out + 1] = line end
  return out
end

describe("ARCHITECTURE.md", function()
  local text = read("ARCHITECTURE.md"):gsub("\n```.-\n```", "")  -- without the blocks
  local files = lines_of("find core lua spec examples -name '*.[ch]' -o -name '*.lua' | LC_ALL=C sort")

  it("names functions and fields that exist", function()
    local words = {}
    for _, path in ipairs(files) do
      if not path:find("^spec") then
        for word in read(path):gmatch("[%a_][%w_]*") do words[word] = true end
      end
    end
    local seen, missing = 0, {}
    for quoted in text:gmatch("`([^`\n]+)`") do
      local name = quoted:match("^[%a_][%w_]*$")
      if name and name:find("_", 2, true) then
        seen = seen + 1
        if not words[name] then missing[#missing + 1] = name end
      end
    end
    assert.is_true(seen > 40)
    assert.same({}, missing)
  end)

  it("names files that exist", function()
    local seen, missing = 0, {}
    for quoted in text:gmatch("`([^`\n]+)`") do
      local name = quoted:match("^[%w_/]+%.[ch]$") or quoted:match("^[%w_/]+%.lua$")
      if name then
        seen = seen + 1
        local found = false
        for _, path in ipairs(files) do found = found or ("/" .. path):sub(-#name - 1) == "/" .. name end
        if not found then missing[#missing + 1] = name end
      end
    end
    assert.is_true(seen > 20)
    assert.same({}, missing)
  end)
end)
