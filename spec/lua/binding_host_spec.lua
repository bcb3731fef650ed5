local probe = require "streamckpt.probe"

-- A folder with a module of its own, so that the blob's meaning is in the hands of the spec.
local function with_slot_module(text, run)
  local dir = os.tmpname()
  os.remove(dir)
  assert(os.execute("mkdir -p " .. dir .. "/streamckpt"))
  local file = assert(io.open(dir .. "/streamckpt/slot.lua", "w"))
  file:write(text)
  file:close()
  local ok, message = pcall(run, dir .. "/?.lua")
  os.execute("rm -r " .. dir)
  assert(ok, message)
end

describe("binding: host", function()
  it("loads the blob by the slot module, with paths and the core module in place", function()
    with_slot_module([[
      return { load = function(blob)
        function answer()
          return table.concat({ blob, require("streamckpt.core").marker, package.cpath,
                                tostring(require("streamckpt.core") == require("streamckpt.core")) }, "|")
        end
        return { operators = {} }
      end }]], function(path)
      assert.equal("blob|core|cpath|true", probe.binding_host("blob", path, "cpath"))
    end)
  end)

  it("says what went wrong, with the traceback", function()
    with_slot_module([[
      local function inner(blob) error('unreadable ' .. blob) end
      return { load = function(blob) inner(blob) return 1 end } ]], function(path)
      local ok, message, code = probe.binding_host("blob", path)
      assert.is_nil(ok)
      assert.equal("EUSER", code)
      assert.truthy(message:find("unreadable blob", 1, true))
      assert.truthy(message:find("inner", 1, true))
    end)
    with_slot_module("return { load = function() return 5 end }", function(path)
      local _, message = probe.binding_host("blob", path)
      assert.truthy(message:find("a number came instead of a table", 1, true))
    end)
    with_slot_module("return { load = function() error({}) end }", function(path)
      local _, message, code = probe.binding_host("blob", path)
      assert.equal("EUSER", code)
      assert.truthy(message:find("(error object is a table value)", 1, true))
    end)
    local unspeakable = "setmetatable({}, { __tostring = error })"
    with_slot_module("return { load = function() error(" .. unspeakable .. ") end }", function(path)
      local _, message, code = probe.binding_host("blob", path)
      assert.equal("EUSER", code)
      assert.matches("^EUSER: an error whose object has no text was raised\nstack traceback:", message)
    end)
    local _, message, code = probe.binding_host("blob", "/nowhere/?.lua")
    assert.equal("EUSER", code)
    assert.truthy(message:find("module 'streamckpt.slot' not found", 1, true))
  end)

  it("refuses source that does not compile", function()
    local ok, message, code = probe.binding_new("return {", { { kind = "map", outputs = { "main" } } })
    assert.is_nil(ok)
    assert.equal("EUSER", code)
    assert.truthy(message:find("source:1:", 1, true))
    local _
    _, message = probe.binding_new("return { operators = 1 }", { { kind = "map", outputs = { "main" } } })
    assert.truthy(message:find("the job's root table has no operators", 1, true))
  end)
end)
