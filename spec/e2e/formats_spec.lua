-- A real checkpoint of a small job, read with a page of plain Lua that knows only ARCHITECTURE.md.
local folder = require "support.folder"
local reader = require "support.plain_reader"
local sc = require "streamckpt"

local TIMER = 1000000

-- Three splits that each give the numbers 0 to 9 and then wait for a file, so that the checkpoint is
-- taken of a job that runs, and what it holds can be said beforehand.
local function build(dir, options)
  local env = sc.env {
    name = "small", parallelism = 2, log = { level = "error" },
    checkpoint = { dir = dir .. "/ckpt", interval = "1h", retain = 3 }, max_parallelism = options.max,
  }
  local gate = dir .. "/go"
  env:source { uid = "numbers", splits = function() return { 1, 2, 3 } end,
    read = function(ctx, split, at)
      at = at or 0
      if at == 10 then
        local file = io.open(gate)
        if not file then return at, 2 end
        file:close()
        return nil
      end
      ctx:emit({ k = ("key-%d"):format(at % 4), n = at + 100 * split }, 1000 * at)
      return at + 1
    end }
    :watermarks { uid = "time", out_of_orderness = "5s" }
    :key_by("k")
    :process { uid = "sums/of all", state = { total = sc.value(), seen = sc.map() },
      on_element = function(ctx, v)
        ctx.state.total:set((ctx.state.total:get() or 0) + v.n)
        ctx.state.seen:set(v.n, v.n / 2)
        ctx.timers:event_time(1000000)
        ctx:emit { k = ctx.key, n = v.n }
      end,
      on_timer = function() end }
    :to_file(dir .. "/out"):uid("out")
  return env
end

-- What the state must be, computed here: sums and entries by key.
local function expected()
  local totals, seen = {}, {}
  for split = 1, 3 do
    for at = 0, 9 do
      local key, n = ("key-%d"):format(at % 4), at + 100 * split
      totals[key] = (totals[key] or 0) + n
      seen[key] = seen[key] or {}
      seen[key][n] = n / 2
    end
  end
  return totals, seen
end

local function received(job, uid)
  local n = 0
  for _, row in ipairs(job:metrics()) do
    if row.uid == uid then n = n + row.numRecordsIn end
  end
  return n
end

local function watermarks_at(job, uid, ms)
  for _, row in ipairs(job:metrics()) do
    if row.uid == uid and row.currentWatermark ~= ms then return false end
  end
  return true
end

local function wait_for(what, condition)
  for _ = 1, 20000 do
    if condition() then return end
    os.execute("sleep 0.001")
  end
  error("waited too long for " .. what)
end

describe("the formats of ARCHITECTURE.md", function()
  local f

  before_each(function() f = folder.new() end)
  after_each(function() f:remove() end)

  it("are enough to read a checkpoint", function()
    local job = assert(build(f.path, { max = 16 }):start())
    wait_for("30 records", function() return received(job, "out") == 30 end)
    -- The greatest timestamp less five seconds and one millisecond.
    wait_for("the watermark", function() return watermarks_at(job, "sums/of all", 3999) end)
    local id = assert(job:checkpoint())
    local second = assert(job:checkpoint())
    assert.equals(id + 1, second)
    local lock = f:read("ckpt/small/lock")
    job:cancel()
    assert(job:wait("1min"))

    local dir = f:at("ckpt/small/chk-" .. id)
    local body = reader.metadata(dir)
    assert.same({ id, "small", "small", 1, false, false },
      { body.id, body.job_id, body.job_name, body.attempt, body.finished, body.savepoint })
    assert.is_true(body.time > 1.7e12)
    local uids = {}
    for i, op in ipairs(body.operators) do uids[i] = op.uid .. " " .. op.parallelism end
    assert.same({ "numbers 2", "time 2", "sums/of all 2", "out 2" }, uids)

    -- One exchange: the sums are keyed; all else is chained.
    assert.equals(1, #body.edges)
    local edge = body.edges[1]
    assert.same({ "time", "main", "sums/of all", "hash", 0, 0, 2, 2 },
      { edge.from, edge.output, edge.to, edge.partitioner, edge.port, edge.ordinal,
        edge.from_parallelism, edge.to_parallelism })

    local numbers = reader.operator(body, "numbers")
    assert.same({ found = true, splits = {} }, numbers.enumerator)
    local positions = {}
    for _, item in ipairs(reader.list(numbers, "splits")) do positions[item.split] = item.position end
    assert.same({ 10, 10, 10 }, positions)
    for _, at in ipairs(reader.list(reader.operator(body, "time"), "max")) do assert.equals(9000, at) end

    local sums = reader.operator(body, "sums/of all")
    assert.equals(16, sums.max_parallelism)
    for _, task in ipairs(sums.subtasks) do assert.same({ 0, 3999 }, { task["end"], task.watermark }) end
    local totals, seen, timers = {}, {}, {}
    for _, row in ipairs(reader.rows(dir, sums)) do
      local key = row.timer and row.timer.key or row.key
      assert.equals(reader.group(key, 16), row.group)
      local first, last = reader.range(row.task, 2, 16)
      assert.is_true(first <= row.group and row.group <= last)
      assert.equals("", row.namespace)
      if row.state == "total" then
        assert.equals(1, row.kind)
        totals[key] = row.value
      elseif row.state == "seen" then
        assert.equals(3, row.kind)
        seen[key] = seen[key] or {}
        seen[key][row.map_key] = row.value
      else
        assert.equals("_timers/event", row.state)
        assert.same({ 6, "", "", TIMER }, { row.kind, row.key, row.value, row.timer.time })
        timers[#timers + 1] = key
      end
    end
    local want_totals, want_seen = expected()
    assert.same(want_totals, totals)
    assert.same(want_seen, seen)
    table.sort(timers)
    assert.same({ "key-0", "key-1", "key-2", "key-3" }, timers)

    -- Names: ids, the lock of this process, parts of the sink.
    assert.equals(("checkpoint %d\nattempt 1\n"):format(id + 999), f:read("ckpt/small/ids"))
    local stat = assert(io.open("/proc/self/stat"))
    assert.equals(("%d\n"):format(stat:read("n")), lock)
    stat:close()
    for _, item in ipairs(reader.list(reader.operator(body, "out"), "pending")) do
      assert.equals(id, item.id)
      local task = item.final:match("^small%.out%.0000000001%.(%d+)%.json$")
      assert.equals((".small.out.0000000001.%s.pending"):format(task), item.file)
      -- Its checkpoint is complete: the part has its last name by now, and its lines are JSON.
      for line in f:read("out/" .. item.final):gmatch("[^\n]+") do
        assert.matches('^{"k":"key%-%d","n":%d+}$', line)
      end
    end
  end)

  it("say how key groups are computed", function()
    -- The other side is the engine; what it must give is held by spec/core/data/key_spec.lua.
    local probe = require "streamckpt.probe"
    local function packed(key)
      if type(key) == "boolean" then return probe.value_pack_bool(key) end
      if type(key) == "string" then return probe.value_pack_str(key) end
      return math.type(key) == "float" and probe.value_pack_float(key) or probe.value_pack_int(key)
    end
    for _, key in ipairs { 0, 1, -1, 42, math.maxinteger, math.mininteger, "", "a", "key-0",
                           "caf\xc3\xa9", 1.5, true, false } do
      for _, m in ipairs { 1, 7, 128, 32768 } do
        assert.equals(probe.key_group(assert(probe.key_append(packed(key))), m),
          reader.group(key, m), tostring(key))
      end
    end
  end)

  it("say what a line of the log is", function()
    local job = assert(build(f.path, {}):start())
    wait_for("30 records", function() return received(job, "out") == 30 end)
    assert(job:checkpoint())
    f:write("go", "")
    assert(job:wait("1min"))
    local seen = {}
    for line in f:read("ckpt/small/log"):gmatch("[^\n]+") do
      local day, level, where = line:match("^(%d%d%d%d%-%d%d%-%d%d)T%d%d:%d%d:%d%d%.%d%d%dZ (%u+) +%[([^]]+)%]")
      assert.is_string(day, line)
      assert.is_truthy(("DEBUG INFO WARN ERROR"):find(level, 1, true))
      seen[#seen + 1] = where
    end
    assert.equals("small #1 chk 1", seen[1])
    assert.equals("small #1", seen[#seen])
    -- The last checkpoint says that the job is complete, and holds no split any more.
    local last = reader.metadata(f:at("ckpt/small/chk-2"))
    assert.is_true(last.finished)
    for _, op in ipairs(last.operators) do
      for _, task in ipairs(op.subtasks) do assert.is_true(task["end"] > 0) end
    end
    assert.same({}, reader.list(reader.operator(last, "numbers"), "splits"))
  end)
end)
