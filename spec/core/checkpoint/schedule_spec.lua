local probe = require "streamckpt.probe"

local function new(options)
  local s = probe.schedule_new(options)
  probe.schedule_start(s, 0)
  return s
end

-- Choose and take; the kind, and the request's number.
local function poll(s, mono, load)
  local kind = probe.schedule_choose(s, mono, load or {})
  return kind, kind ~= "nothing" and probe.schedule_take(s, kind) or nil
end

describe("schedule", function()
  it("182. queue when too many pending", function()
    local s = new { interval = 100 }
    probe.schedule_tick(s, 100)
    assert.equal("nothing", (poll(s, 100, { pending = 1 })))
    assert.equal("periodic", (poll(s, 150)))
    assert.equal("nothing", (poll(s, 150)))
  end)

  it("183. queue when too many cleanups", function()
    local s = new { interval = 100, max_concurrent = 10 }
    probe.schedule_request(s, 1)
    assert.equal("nothing", (poll(s, 0, { deleting = 11 })))
    assert.equal("manual", (poll(s, 0, { deleting = 10 })))
  end)

  it("184. user request first", function()
    local s = new { interval = 100 }
    probe.schedule_tick(s, 100)
    probe.schedule_request(s, 7)
    assert.equal("nothing", (poll(s, 100, { preparing = true })))
    assert.same({ "manual", 7 }, { poll(s, 100) })
    assert.same({ "periodic", 0 }, { poll(s, 100) })
  end)

  it("takes the final one after manual ones and before the periodic one", function()
    local s = new { interval = 100, min_pause = 50 }
    probe.schedule_completed(s, 90)
    probe.schedule_tick(s, 100)
    probe.schedule_request(s, 1)
    assert.equal("manual", (poll(s, 100, { final = true })))
    assert.equal("final", (poll(s, 100, { final = true })))
    assert.equal("nothing", (poll(s, 100)))
  end)

  it("186. bounded queue", function()
    local s = new { capacity = 10 }
    for i = 1, 10 do assert.is_true(probe.schedule_request(s, i)) end
    assert.is_false(probe.schedule_request(s, 11))
    for i = 1, 10 do assert.same({ "manual", i }, { poll(s, 0) }) end
    assert.equal("nothing", (poll(s, 0)))
  end)

  it("187. pause and kind", function()
    local s = new { interval = 10, min_pause = 10 }
    probe.schedule_completed(s, 10)
    probe.schedule_tick(s, 10)
    assert.equal("nothing", (poll(s, 10)))
    probe.schedule_request(s, 1)
    assert.equal("manual", (poll(s, 10)))
    assert.equal("nothing", (poll(s, 19)), "the periodic one was dropped, not kept")
    assert.equal(20, probe.schedule_deadline(s))
  end)

  it("188. pause measured from end", function()
    local s = new { interval = 100, min_pause = 50 }
    probe.schedule_completed(s, 80)
    assert.equal(100, probe.schedule_deadline(s))
    probe.schedule_tick(s, 100)
    assert.equal("nothing", (poll(s, 100)))
    assert.equal(130, probe.schedule_deadline(s))
    probe.schedule_tick(s, 130)
    assert.equal("periodic", (poll(s, 130)))
    assert.equal(230, probe.schedule_deadline(s))
  end)

  it("189. pause and failed checkpoint: a failure moves no pause", function()
    local s = new { interval = 100, min_pause = 50 }
    probe.schedule_tick(s, 100)
    assert.equal("periodic", (poll(s, 100)))
    probe.schedule_tick(s, 200)
    assert.equal("periodic", (poll(s, 200)))
  end)

  it("189. pause and failed checkpoint: one that is asked for never ends an older, longer one", function()
    local s = new { interval = 100, min_pause = 50 }
    probe.schedule_completed(s, 90)
    probe.schedule_failed(s, 95, 20)
    probe.schedule_tick(s, 100)
    assert.equal("nothing", (poll(s, 139)))
    assert.equal(140, probe.schedule_deadline(s))
    probe.schedule_failed(s, 135, 30)
    probe.schedule_tick(s, 140)
    assert.equal("nothing", (poll(s, 164)))
    probe.schedule_tick(s, 165)
    assert.equal("periodic", (poll(s, 165)))
    probe.schedule_failed(s, 200, 0)
    probe.schedule_tick(s, 265)
    assert.equal("periodic", (poll(s, 265)), "no pause")
  end)

  it("keeps to the planned timeline when a tick is late, and makes up for none", function()
    local s = new { interval = 10 }
    probe.schedule_tick(s, 1003)
    assert.equal("periodic", (poll(s, 1003)))
    assert.equal("nothing", (poll(s, 1003)))
    assert.equal(1010, probe.schedule_deadline(s))
  end)

  it("takes an interval shorter than the pause as the pause", function()
    local s = new { interval = 10, min_pause = 30 }
    assert.equal(30, probe.schedule_deadline(s))
  end)

  it("has no deadline without an interval, before a start, and after a stop", function()
    assert.equal(math.maxinteger, probe.schedule_deadline(new { min_pause = 5 }))
    local s = probe.schedule_new { interval = 10 }
    assert.equal(math.maxinteger, probe.schedule_deadline(s))
    probe.schedule_start(s, 5)
    assert.equal(15, probe.schedule_deadline(s))
    probe.schedule_tick(s, 15)
    probe.schedule_stop(s)
    assert.equal(math.maxinteger, probe.schedule_deadline(s))
    assert.equal("nothing", (poll(s, 20)))
  end)

  it("does not overflow with the longest times", function()
    local s = new { interval = math.maxinteger, min_pause = math.maxinteger }
    probe.schedule_completed(s, 5)
    assert.equal(math.maxinteger, probe.schedule_deadline(s))
  end)
end)
