-- A checkpoint and a script that has changed since: state goes by uid, and none is lost unasked.
local sc = require "streamckpt"
local trial = require "support.trial"

local RECORDS, HOLD, KEYS = 120, 60, 5

describe("a script that changed since the checkpoint", function()
  local dir
  before_each(function() dir = trial.folder() end)
  after_each(trial.clean)

  local function count(stream, uid)
    stream:key_by("k"):process { uid = uid, state = { n = sc.value() },
      on_element = function(ctx)
        local n = (ctx.state.n:get() or 0) + 1
        ctx.state.n:set(n)
        ctx:emit { k = ctx.key, n = n }
      end }:to_file(dir .. "/" .. uid):uid("out-" .. uid)
  end

  -- names: the counts, in the order in which they are built; "=" puts a map in front of the next one.
  local function start(names, start_options)
    local keys = KEYS
    local env = sc.env(trial.options(dir))
    local stream = trial.source(env, { uid = "source", splits = { 1 }, records = RECORDS, hold = HOLD,
      go = dir .. "/go", value = function(_, i) return { k = i % keys } end })
    for name in names:gmatch("%S+") do
      if name == "=" then
        stream = stream:map(function(v) return v end):uid("same")
      else
        count(stream, name)
      end
    end
    return env:start(start_options)
  end

  -- The counts "a" and "b" at HOLD, canceled.
  local function checkpoint()
    local job = assert(start("a b"))
    trial.wait_for(job, function()
      local a, b = job:metrics("a"), job:metrics("b")
      return a and b and a.numRecordsIn == HOLD and b.numRecordsIn == HOLD
    end)
    assert(job:checkpoint())
    -- Else a part of a sink that is left behind could be one that waited to be committed.
    trial.wait_for(job, function()
      return #trial.names(dir .. "/a", "pending$") + #trial.names(dir .. "/b", "pending$") == 0
    end)
    trial.cancel(job)
    trial.go(dir)
  end

  -- What a count of `n` records has written, by a plain loop.
  local function expected(n)
    local lines = {}
    for i = 1, n do lines[i] = ('{"k":%d,"n":%d}'):format(i % KEYS, (i - (i % KEYS == 0 and KEYS or i % KEYS)) // KEYS + 1) end
    table.sort(lines)
    return lines
  end

  local function finish(names, start_options)
    local options = { from = "latest" }
    for name, value in pairs(start_options or {}) do options[name] = value end
    assert(trial.wait(assert(start(names, options))))
  end

  it("may build its operators in another order, and put others between that have no state", function()
    for _, names in ipairs { "b a", "= a b", "a = b" } do
      dir = trial.folder()
      checkpoint()
      finish(names)
      assert.same(expected(RECORDS), (trial.lines(dir .. "/a")))
      assert.same(expected(RECORDS), (trial.lines(dir .. "/b")))
    end
  end)

  it("may have new operators, which begin with nothing", function()
    checkpoint()
    finish("a c b")
    assert.same(expected(RECORDS), (trial.lines(dir .. "/a")))
    assert.same(expected(RECORDS), (trial.lines(dir .. "/b")))
    assert.same(expected(RECORDS - HOLD), (trial.lines(dir .. "/c")), "HOLD is a multiple of KEYS")
  end)

  it("without an operator that has state is refused, with what there is on both sides", function()
    checkpoint()
    local job, message, code = start("a", { from = "latest" })
    assert.is_nil(job)
    assert.equal("ESTATE", code)
    assert.matches('holds state of operator "b", which the job does not have', message)
    assert.matches("the snapshot has source, [^;]*b[^;]*; the job has source, [^;)]*a", message)
    assert.matches("allow_non_restored_state = true leaves it behind", message)
    -- The refusal changed nothing: the whole script goes on.
    finish("a b")
    assert.same(expected(RECORDS), (trial.lines(dir .. "/b")))
  end)

  it("without it goes on where that is allowed, and the log says what was left behind", function()
    checkpoint()
    finish("a", { allow_non_restored_state = true })
    assert.same(expected(RECORDS), (trial.lines(dir .. "/a")))
    assert.same(expected(HOLD), (trial.lines(dir .. "/b")), "what it had written stays")
    assert.matches('the state of operator "b" is left behind', trial.log(dir))
    -- The checkpoints of the changed script have none of it: back then, "b" would begin anew.
    local status = assert(trial.wait(assert(start("a", { from = "latest" }))))
    assert.is_true(status.was_complete)
  end)
end)
