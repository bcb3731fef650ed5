local probe = require "streamckpt.probe"

-- "f1": counted failure of 1; "o1": not counted; "ok1": success. Returns where the job had to fail.
local function run(tolerable, history)
  local f, failed = probe.failures_new(tolerable), {}
  for step in history:gmatch "%S+" do
    local kind, id = step:match "^(%a+)(%d+)$"
    if kind == "ok" then
      probe.failures_success(f, tonumber(id))
    elseif probe.failures_add(f, kind == "f" and "declined" or "task_failed", tonumber(id)) then
      failed[#failed + 1] = step
    end
  end
  return table.concat(failed, " "), f
end

describe("failures", function()
  it("178. tolerable failures", function()
    assert.equal("", (run(2, "f1 f2 ok2 f1 f3 f4")))
    assert.equal("f4", (run(2, "f1 f2 o3 f4")))
    assert.equal("", (run(2, "f1 f2 o3 ok4 f5")))
    assert.equal("", (run(2, "f1 f2 o3 f2")))
  end)

  it("fails the job at the first failure where none is tolerable, and then counts anew", function()
    local failed, f = run(0, "f1 f2")
    assert.equal("f1 f2", failed)
    assert.equal(0, probe.failures_count(f))
  end)

  it("counts a failure without an id always", function()
    assert.equal("f0", (run(1, "f0 f0")))
  end)

  it("never fails the job where failures are unlimited, but counts them", function()
    local failed, f = run(-1, "f1 f2 f3 f4 f5 f6 f7 f8 f9 f10 f11 f12")
    assert.equal("", failed)
    assert.equal(12, probe.failures_count(f))
    probe.failures_success(f, 13)
    assert.equal(0, probe.failures_count(f))
  end)

  it("counts the five reasons that are failures, and no other", function()
    local counted = { expired = true, declined = true, async_failed = true, io = true, finalize = true }
    for _, reason in ipairs { "none", "expired", "declined", "async_failed", "io", "finalize", "subsumed",
      "task_failed", "task_closing", "superseded", "not_running", "too_many_requests", "stopped" } do
      local f = probe.failures_new(5)
      assert.is_false(probe.failures_add(f, reason, 1))
      assert.equal(counted[reason] and 1 or 0, probe.failures_count(f), reason)
    end
  end)

  it("is not reset by the success of an older checkpoint", function()
    assert.equal("f8", (run(2, "ok5 f6 f7 ok4 f8")))
  end)

  it("has a sentence for every reason", function()
    local seen = {}
    for _, reason in ipairs { "none", "expired", "declined", "async_failed", "io", "finalize", "subsumed",
      "task_failed", "task_closing", "superseded", "not_running", "too_many_requests", "stopped" } do
      local text = probe.reason_text(reason)
      assert.is_nil(seen[text], text)
      seen[text] = true
    end
  end)
end)
