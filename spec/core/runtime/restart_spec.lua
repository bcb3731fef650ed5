local probe = require "streamckpt.probe"

describe("restart", function()
  it("272. fixed delay", function()
    local r = probe.restart_new("fixed_delay", { attempts = 3, delay = 10000 })
    for _ = 1, 3 do assert.equal(10000, probe.restart_failed(r, 0)) end
    assert.is_false(probe.restart_failed(r, 0))
    assert.equal(3, probe.restart_count(r))
  end)

  it("279. attempts", function()
    local r = probe.restart_new("fixed_delay", { attempts = 13 })
    for _ = 1, 13 do assert.equal(1000, probe.restart_failed(r, 0)) end
    assert.is_false(probe.restart_failed(r, 0))
  end)

  it("restarts for ever after a second by default", function()
    local r = probe.restart_new("fixed_delay", {})
    for i = 1, 1000 do assert.equal(1000, probe.restart_failed(r, i)) end
  end)

  it("never restarts with none, nor with no attempts", function()
    assert.is_false(probe.restart_failed(probe.restart_new("none", {}), 0))
    assert.is_false(probe.restart_failed(probe.restart_new("fixed_delay", { attempts = 0 }), 0))
  end)

  it("may restart at once", function()
    assert.equal(0, probe.restart_failed(probe.restart_new("fixed_delay", { delay = 0 }), 0))
  end)

  it("refuses an unknown strategy and a negative delay", function()
    local r, message, code = probe.restart_new("sometimes", {})
    assert.is_nil(r)
    assert.equal("EUNSUPPORTED", code)
    assert.matches('"sometimes"', message, 1, true)
    r, message, code = probe.restart_new("fixed_delay", { delay = -5 })
    assert.is_nil(r)
    assert.equal("EINVAL", code)
    assert.matches("-5 ms", message, 1, true)
  end)
end)
