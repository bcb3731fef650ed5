-- README.md keeps its word: every script in it runs and prints what stands below it, the session at the
-- prompt says what it says there, and the table of options is what the options are.
local config = require "streamckpt.config"
local folder = require "support.folder"
local readme = require "support.readme"

local blocks = readme.blocks("README.md")

-- The scripts with their outputs: { name, text, outputs = { { text, any_order } } }.
local function scripts()
  local out = {}
  for _, block in ipairs(blocks) do
    local name = block.mark and block.mark:match("^run: ([%w_]+)")
    if name then
      out[#out + 1] = { name = name, text = block.text, outputs = {} }
    elseif block.mark and block.mark:find("^output") then
      local outputs = out[#out].outputs
      outputs[#outputs + 1] = { text = block.text, any_order = block.mark:find("in any order") ~= nil }
    end
  end
  return out
end

describe("README.md", function()
  local f

  before_each(function() f = folder.new() end)
  after_each(function() f:remove() end)

  it("has no script that nobody runs", function()
    for _, block in ipairs(blocks) do
      if block.language == "lua" then
        assert.matches("^[rf][ui][nl]e?: ", block.mark or "", nil, "the script at line " .. block.line)
      end
    end
    assert.is_true(#scripts() >= 10)
  end)

  for _, script in ipairs(scripts()) do
    it("runs " .. script.name, function()
      f:write(script.name .. ".lua", script.text)
      assert.is_true(#script.outputs > 0)
      for _, output in ipairs(script.outputs) do
        local order = output.any_order and readme.sorted or function(text) return text end
        assert.equals(order(readme.plain(output.text)),
          order(readme.plain(readme.run(f.path, "lua5.4 " .. script.name .. ".lua"))))
      end
    end)
  end

  it("shows files as they are", function()
    for _, block in ipairs(blocks) do
      local path = block.mark and block.mark:match("^file: (.*)$")
      if path then
        local file <close> = assert(io.open(path))
        assert.equals(file:read("a"), block.text, path .. " has changed, and README.md shows it: LUA_PATH_5_4='spec/?.lua;;' "
          .. "lua5.4 -e 'require(\"support.readme\").refresh \"README.md\"'")
      end
    end
  end)

  it("shows the session at a prompt as it goes", function()
    for _, block in ipairs(blocks) do
      if block.mark == "prompt" then
        local typed, said = {}, {}
        for line in block.text:gmatch("([^\n]*)\n") do
          local input = line:match("^> (.*)$")
          if input then
            typed[#typed + 1], said[#said + 1] = input, ""
          else
            said[#said] = said[#said] .. line .. "\n"
          end
        end
        local session = readme.session(f.path, typed)
        for i, input in ipairs(typed) do
          assert.equals(readme.plain(said[i]), readme.plain(session[i]), "after " .. input)
        end
      end
    end
  end)

  it("lists every option with its default", function()
    local rows = {}
    for line in io.lines("README.md") do
      local name, default = line:match("^| `([%w_.]+)` | (.-) | .* | .* |$")
      if name then rows[name] = default end
    end
    local known = {}
    for _, option in ipairs(config.list()) do
      known[option.path] = true
      local default = rows[option.path]
      assert.is_string(default, option.path .. " is not in the table")
      local literal = default:match("^`(.*)`$")
      if option.default ~= nil then
        assert.is_string(literal, option.path .. " has a default, " .. tostring(option.default))
        assert.equals(option.default, option.check(load("return " .. literal)()), option.path)
      end
    end
    for name in pairs(rows) do assert.is_true(known[name], name .. " is no option") end
  end)
end)
