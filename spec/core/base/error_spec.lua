local probe = require "streamckpt.probe"

local EIO, ECORRUPT, EFAILED = -2, -3, -21

describe("error", function()
  it("tells the whole chain of causes, the last one first", function()
    local err = probe.error_chain {
      { EIO, "the disk is gone" }, { ECORRUPT, "cannot read it" }, { EFAILED, "no start" } }
    assert.equal("EFAILED: no start; because ECORRUPT: cannot read it; because EIO: the disk is gone",
                 err.text)
    assert.equal("EFAILED", err.code)
  end)

  it("keeps the first name of operator and file", function()
    local err = probe.error_chain { { EIO, "x", "map (m) 1/2", "/a/b" } }
    assert.equal("map (m) 1/2", err.operator)
    assert.equal("/a/b", err.file)
  end)

  it("copies deeply and moves without a rest", function()
    local err, copy, rest = probe.error_chain { { EIO, "disk", "op", "file" }, { EFAILED, "job" } }
    assert.same(err, copy)
    assert.equal("EFAILED: job; because EIO: disk", copy.text)
    assert.equal("OK", rest.code)
    assert.is_nil(rest.operator)
  end)

  it("may make its text from its own text", function()
    assert.equal("EIO: again: first", probe.error_of_itself("first").text)
  end)

  it("keeps long texts whole", function()
    local long = ("x"):rep(100000)
    assert.equal("EIO: " .. long, probe.error_chain({ { EIO, long } }).text)
  end)

  it("has a name and a general text for each code, and one for what is none", function()
    assert.equal("EINVAL", (probe.error_name(-1)))
    assert.equal("EIO", (probe.error_name(EIO)))
    assert.equal("OK", (probe.error_name(0)))
    assert.equal("OK", (probe.error_name(7)))
    for _, nonsense in ipairs { -1000, -2147483648 } do
      assert.equal("EINTERNAL", (probe.error_name(nonsense)))
    end
    local seen, n = {}, 0
    repeat
      n = n + 1
      local name, text = probe.error_name(-n)
      assert.is_nil(seen[name])
      seen[name] = true
      assert.truthy(#text > 0)
    until name == "EINTERNAL"
  end)

  it("makes codes of the errnos that a user can do something about", function()
    local errno = { ENOENT = 2, EACCES = 13, EEXIST = 17, ENOSPC = 28, EROFS = 30, EIO = 5, EPERM = 1,
                    EDQUOT = 122, EBADF = 9 }
    local expected = { ENOENT = "ENOTFOUND", EACCES = "EACCESS", EEXIST = "EEXIST",
                       ENOSPC = "ENOSPACE", EROFS = "EACCESS", EIO = "EIO", EPERM = "EACCESS",
                       EDQUOT = "ENOSPACE", EBADF = "EIO" }
    for name, code in pairs(expected) do
      assert.equal(code, probe.error_of_errno(errno[name]), name)
    end
  end)
end)
