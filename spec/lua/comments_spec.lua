-- What users call carries a comment that says what it does, what it gives, and an example; its
-- parameters are named. (What the words say is for people to check.)
local FILES = { "env", "job", "result", "state", "stream", "testing" }
local PUBLIC = { "methods", "stream_methods", "settings", "state", "values", "env", "testing" }
-- Functions between the rooms of this library, not for users.
local INTERNAL = { ["state.plain"] = true, ["settings.lookup"] = true, ["env.describe"] = true,
                   ["env.is"] = true }

local function public_name(line)
  local table_name, name, parameters = line:match("^function ([%w_]+)[.:]([%w_]+)%((.*)%)")
  for _, public in ipairs(PUBLIC) do
    if table_name == public and not INTERNAL[table_name .. "." .. name] then return name, parameters end
  end
end

describe("comments of public functions", function()
  for _, file in ipairs(FILES) do
    it("are whole in " .. file .. ".lua", function()
      local comment, found = {}, 0
      for line in io.lines("lua/streamckpt/" .. file .. ".lua") do
        local name, parameters = public_name(line)
        if name then
          found = found + 1
          local text = table.concat(comment, "\n")
          assert.matches("^%-%-%- ", text, nil, name .. " has no comment")
          assert.matches("@return", text, nil, name .. " does not say what it returns")
          assert.matches("Example: ", text, nil, name .. " has no example")
          for parameter in parameters:gmatch("[%w_.]+") do
            assert.is_truthy(text:find("@param " .. parameter, 1, true), name .. " does not say what "
              .. parameter .. " is")
          end
        end
        if line:find("^%s*%-%-") then comment[#comment + 1] = line else comment = {} end
      end
      assert.is_true(found > 0)
    end)
  end
end)
