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

  -- Without a last one the end would commit the rest, and a start from the first commit it once more.
  it("is not the last one of a job without an interval: the end of the input takes one", function()
    local function env_of()
      local env = sc.env { name = "rest", log = { level = "off" }, checkpoint = { dir = f:at("ckpt") } }
      local numbers = env:source { uid = "numbers", splits = function() return { 0 } end,
        read = function(ctx, _, at)
          at = at or 0
          if at == 10 then return nil end
          local go <close> = at == 5 and io.open(f:at("go")) or nil
          if at == 5 and not go then return at, 1 end
          ctx:emit(at)
          return at + 1
        end }
      numbers:to_file(f:at("out"), { format = "lines" }):uid("out")
      numbers:collect():uid("rows")
      return env
    end
    local function committed()
      local lines <close> = io.popen("cat '" .. f:at("out") .. "'/*.txt | sort -n | tr '\\n' ' '")
      return lines:read("a")
    end
    local job = assert(env_of():start())
    local id = assert(job:checkpoint())
    io.open(f:at("go"), "w"):close()
    assert(job:wait("1min"))
    assert.equals(id + 1, job:status().last_checkpoint)
    assert.equals(10, #job:rows("rows"))
    assert.equals("0 1 2 3 4 5 6 7 8 9 ", committed())
    local again = assert(env_of():start { from = "latest" })
    assert(again:wait("1min"))
    assert.is_true(again:status().was_complete)
    assert.equals("0 1 2 3 4 5 6 7 8 9 ", committed())
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
