-- job:checkpoint() as a script calls it: right after the start, and when there is nothing to take.
local folder = require "support.folder"
local sc = require "streamckpt"

-- A source that emits one value and then waits for ever.
local function start(options, fn)
  options.log = { level = "off" }
  local env = sc.env(options)
  env:source { uid = "s", splits = function() return { 1 } end,
    read = function(ctx, _, at)
      if not at then ctx:emit(1) end
      return 1, 5
    end }
    :map(fn or function(v) return v end, { uid = "m" })
    :collect():uid("c")
  return assert(env:start())
end

describe("job:checkpoint()", function()
  local f

  before_each(function() f = folder.new() end)
  after_each(function() f:remove() end)

  it("waits until a job that was just started can take one", function()
    for _ = 1, 10 do
      local job = start { name = "early", checkpoint = { dir = f:at("ckpt"), retain = 100 } }
      local first = assert(job:checkpoint())
      assert.equals(first + 1, job:checkpoint())
      job:cancel()
      assert(job:wait("1min"))
    end
  end)

  it("says that the job ended, where it did before one could be taken", function()
    local job = start({ name = "failing", checkpoint = { dir = f:at("ckpt") },
                        restart = { strategy = "none" } }, function() error("at once") end)
    local id, message, code = job:checkpoint()
    -- It may have been taken before the value came.
    if not id then
      assert.is_string(message)
      assert.is_truthy(code == "EDECLINED" or code == "ESTALE", code)
    end
    assert.is_nil((job:wait("1min")))
    assert.same({ nil, "EDECLINED: the job has ended (failed)", "EDECLINED" }, { job:checkpoint() })
  end)

  it("is refused in a job without a folder for it", function()
    local job = start { name = "none" }
    local _, message, code = job:checkpoint()
    assert.equals("EUNSUPPORTED", code)
    assert.equals("EUNSUPPORTED: the job has no checkpoint directory: set checkpoint.dir", message)
    job:cancel()
    assert(job:wait("1min"))
  end)
end)
