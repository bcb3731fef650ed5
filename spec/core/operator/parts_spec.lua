local pack = require "support.pack"
local probe = require "streamckpt.probe"

local SPLIT, UNION, BROADCAST = 0, 1, 2

describe("parts", function()
  before_each(function() probe.parts_works_log() end)

  it("has nothing to encode when nothing was added", function()
    assert.is_nil(probe.parts_new():encode())
  end)

  it("encodes lists in the order of their names, items in the order they came", function()
    local parts = probe.parts_new()
    parts:list("b", SPLIT, pack.encode("b1"))
    parts:list("c", UNION, pack.encode { 1, 2 })
    parts:list("a", BROADCAST, pack.encode("a1"))
    parts:list("b", SPLIT, pack.encode("b2"))
    parts:declare("b", SPLIT)
    parts:declare("ab", SPLIT)
    local bytes = parts:encode()
    assert.same({ a = { 2, { "a1" } }, ab = { 0, {} }, b = { 0, { "b1", "b2" } }, c = { 1, { { 1, 2 } } } },
      pack.decode(bytes))
    local last = 0
    for _, name in ipairs { "\xa1a", "\xa2ab", "\xa1b", "\xa1c" } do
      local at = bytes:find(name, last + 1, true)
      assert.is_truthy(at)
      last = at
    end
  end)

  it("runs works in order and drops each once", function()
    local parts = probe.parts_new()
    for _, name in ipairs { "x", "y", "z" } do parts:async(name) end
    assert.is_true(parts:run())
    parts:drop()
    assert.equal("run x;drop x;run y;drop y;run z;drop z;", probe.parts_works_log())
  end)

  it("ends at the first failure and still drops the rest", function()
    local parts = probe.parts_new()
    parts:async("x")
    parts:async("y", true)
    parts:async("z")
    local ok, message, code = parts:run()
    assert.is_nil(ok)
    assert.equal("EIO", code)
    assert.equal("EIO: y failed", message)
    parts:drop()
    assert.equal("run x;drop x;run y;drop y;drop z;", probe.parts_works_log())
  end)

  it("drops works that never ran", function()
    local parts = probe.parts_new()
    parts:async("x")
    parts:async("y")
    parts:drop()
    assert.equal("drop x;drop y;", probe.parts_works_log())
  end)
end)
