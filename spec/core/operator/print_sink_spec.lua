local folder = require "support.folder"
local pack = require "support.pack"
local probe = require "streamckpt.probe"

local storage = probe.operator_storage()

local function new(options)
  return probe.operator_new {
    kind = "print_sink", uid = "show", storage = storage, options = pack.encode(options or {}) }
end

describe("print_sink", function()
  local tmp
  setup(function() tmp = folder.new() end)
  teardown(function() tmp:remove() end)

  it("writes one line of JSON for a value", function()
    local op = assert(new { prefix = "> " })
    probe.operator_stdout_to(tmp:at("out"), function()
      op:push(pack.encode { a = 1, b = "x\ny" })
      op:push(pack.encode "text", nil, true)
      op:push(pack.encode(7))
    end)
    assert.equal('> {"a":1,"b":"x\\ny"}\n> "text"\n> 7\n', tmp:read("out"))
  end)

  it("flushes when idle, at a snapshot, and at the end", function()
    local op = assert(new())
    local seen = {}
    probe.operator_stdout_to(tmp:at("out"), function()
      for i, how in ipairs { "idle", "snapshot", "finish" } do
        op:push(pack.encode(i))
        op[how](op, 1)
        seen[i] = tmp:read("out")
      end
    end)
    assert.same({ "1\n", "1\n2\n", "1\n2\n3\n" }, seen)
  end)

  it("fails where standard output cannot be written", function()
    local op = assert(new())
    local ok, message, code
    probe.operator_stdout_to("/dev/full", function()
      op:push(pack.encode "x")
      ok, message, code = op:finish()
    end)
    assert.is_nil(ok)
    assert.equal("ENOSPACE", code)
    assert.matches("print_sink (show) 1/1: standard output cannot be written", message, 1, true)
  end)

  it("fails where a value cannot be encoded", function()
    local ok, message, code = new():push("", nil, true)
    assert.is_nil(ok)
    assert.equal("EVALUE", code)
    assert.matches("a function", message)
  end)

  it("refuses a bad prefix", function()
    local op, message, code = new { prefix = 5 }
    assert.is_nil(op)
    assert.equal("EINVAL", code)
    assert.matches("print_sink: option prefix must be a string", message, 1, true)
  end)
end)
