-- Many records, large records, many keys: nothing lost, nothing twice, each key in order.
local p = require "support.pipeline"
local sc = require "streamckpt"

after_each(p.clean)

local N, KEYS = 100000, 997

-- The i-th record of every spec here. A linear congruence spreads the keys.
local function record(i)
  return { i = i, k = (i * 7919) % KEYS, w = i % 13 }
end

describe("a hundred thousand records", function()
  it("through four exchanges are all there, and those of a key in order", function()
    -- What a plain loop finds: for each key the number of its records, and the sum of position x weight,
    -- which another order would change.
    local count, mark = {}, {}
    for i = 0, N - 1 do
      local r = record(i)
      count[r.k] = (count[r.k] or 0) + 1
      mark[r.k] = (mark[r.k] or 0) + count[r.k] * r.w
    end
    local result = p.run({ parallelism = 3 }, function(env)
      env:from_generator { count = N, fn = record }:parallelism(1)
        :key_by("k"):process { uid = "first", on_element = function(ctx, r) ctx:emit(r) end }
        :key_by(function(r) return r.k end):parallelism(3):process { uid = "second", state = { n = sc.value() },
          on_element = function(ctx, r)
            r.n = (ctx.state.n:get() or 0) + 1
            ctx.state.n:set(r.n)
            ctx:emit(r)
          end }
        :key_by("k"):process { uid = "third", state = { s = sc.value() }, on_element = function(ctx, r)
          local s = ctx.state.s:get() or { n = 0, mark = 0, last = -1 }
          if r.i <= s.last or r.n ~= s.n + 1 then error("out of order: " .. r.i) end
          s.n, s.mark, s.last = s.n + 1, s.mark + r.n * r.w, r.i
          ctx.state.s:set(s)
          ctx:emit { k = r.k, n = s.n, mark = s.mark }
        end }:parallelism(2)
        :filter(function(s) return s.n >= 100 end)
        :rebalance():map(function(s) return s end):collect():uid("out")
    end)
    local last, rows = {}, result:rows("out")
    for i = 1, #rows do
      local row = rows[i]
      if not last[row.k] or row.n > last[row.k].n then last[row.k] = row end
    end
    local keys = 0
    for k, row in pairs(last) do
      keys = keys + 1
      assert(row.n == count[k] and row.mark == mark[k], k)
    end
    assert.equals(KEYS, keys)
    assert.equals(N - 99 * KEYS, #rows)
    for _, uid in ipairs { "first", "second", "third" } do
      assert.equals(N, result:metrics(uid).numRecordsIn)
    end
  end)

  it("through tiny buffers that are always full are the same", function()
    local rows, result = p.rows({
      parallelism = 2, network = { segment_size = 256, exclusive_buffers = 1, floating_buffers = 0 },
    }, function(env)
      local s = env:from_generator { count = 20000, fn = record }:parallelism(1)
      local twice = s:union(s:map(function(r) return r end):parallelism(1))
      return twice:rebalance():flat_map(function(r) return { r.i, -r.i } end)
        :key_by(function(i) return i % 100 end)
        :reduce(function(a, b) return a + b end):uid("sum")
        :filter(function() return false end)
    end)
    assert.same({}, rows)
    assert.equals(80000, result:metrics("sum").numRecordsIn)
  end)

  it("with checkpoints all the while, to files and to the script, are there once", function()
    local folder = p.folder()
    local options = { id = "spec", parallelism = 2, checkpoint = { interval = "5ms", dir = folder .. "/ckpt" } }
    local result = p.run(options, function(env)
      local s = env:from_generator { count = 50000, fn = record }:uid("source")
        :key_by("k"):process { uid = "p", state = { n = sc.value() }, on_element = function(ctx, r)
          local n = (ctx.state.n:get() or 0) + 1
          ctx.state.n:set(n)
          ctx:emit(("%d %d"):format(r.k, n))
        end }
      s:collect():uid("rows")
      s:to_file(folder .. "/out", { format = "lines" }):uid("out")
    end)
    local rows = table.move(result:rows("rows"), 1, #result:rows("rows"), 1, {})
    table.sort(rows)
    local expected, count = {}, {}
    for i = 0, 49999 do
      local k = record(i).k
      count[k] = (count[k] or 0) + 1
      expected[i + 1] = ("%d %d"):format(k, count[k])
    end
    table.sort(expected)
    assert.equals(table.concat(expected, "\n"), table.concat(rows, "\n"))
    assert.equals(table.concat(expected, "\n"), table.concat(p.parts(folder .. "/out"), "\n"))
    assert.is_true(result:checkpoints().counts.completed >= 2)
    assert.equals(0, result:checkpoints().counts.failed)
  end)
end)

describe("large values", function()
  it("larger than any buffer go through exchanges, state and sinks", function()
    local size = 1024 * 1024
    local folder = p.folder()
    local rows = p.sorted({ parallelism = 2, network = { segment_size = 1024 } }, function(env)
      local s = env:from_generator { count = 6, fn = function(i)
          return { k = i % 2, text = string.char(65 + i):rep(size + i) }
        end }
        :key_by("k"):process { uid = "p", state = { all = sc.map() }, on_element = function(ctx, v)
          ctx.state.all:set(#v.text, v.text)
          local total = 0
          for length, text in ctx.state.all:pairs() do
            assert(#text == length)
            total = total + length
          end
          ctx:emit { total = total, text = v.text }
        end }
        :rebalance():map(function(v) return v end)
      s:map(function(v) return v.text end):to_file(folder, { format = "lines" }):uid("out")
      return s:map(function(v) return v.total end)
    end)
    local lengths = {}
    for _, line in ipairs(p.parts(folder)) do
      assert(line == line:sub(1, 1):rep(#line))
      lengths[#lengths + 1] = #line - size
    end
    table.sort(lengths)
    assert.same({ 0, 1, 2, 3, 4, 5 }, lengths)
    assert.same({ size, size + 1, 2 * size + 2, 2 * size + 4, 3 * size + 6, 3 * size + 9 }, rows)
  end)

  it("come back from a checkpoint whole", function()
    local folder = p.folder()
    local options = p.checkpointing(folder, { parallelism = 2 })
    local function build(env)
      return p.gated(env, folder, { { k = "a" }, { k = "b" }, { k = "a" }, { k = "b" } }):key_by("k")
        :process { uid = "p", state = { text = sc.value() }, on_element = function(ctx)
          local text = ctx.state.text:get()
          if text then ctx:emit(#text .. text:sub(1, 1) .. text:sub(-1)) end
          ctx.state.text:set("<" .. ctx.key:rep(3000000) .. ">")
        end }
    end
    local job = p.start(options, build)
    p.let(folder, 2)
    p.wait_for(job, function() return job:metrics("p").numRecordsIn == 2 end)
    assert(job:checkpoint())
    job:cancel()
    assert(p.wait(job))
    p.let(folder, "end")
    options.parallelism = 1
    assert.same({ "3000002<>", "3000002<>" }, p.rows(options, build, { from = "latest" }))
  end)

  it("may be records with very many fields and elements", function()
    local rows = p.rows({}, function(env)
      return env:from_values { 1 }:map(function()
        local wide, long = {}, {}
        for i = 1, 5000 do wide["field" .. i], long[i] = i, i end
        return { wide = wide, long = long }
      end):rebalance():map(function(v)
        local n = 0
        for name, i in pairs(v.wide) do
          assert(name == "field" .. i and v.long[i] == i)
          n = n + 1
        end
        return { n, #v.long }
      end)
    end)
    assert.same({ { 5000, 5000 } }, rows)
  end)
end)

describe("many keys", function()
  it("each have state and timers of their own, and come back at another parallelism", function()
    local folder, keys = p.folder(), 20000
    local options = p.checkpointing(folder, { parallelism = 3 })
    local values = {}
    for i = 1, 40 do values[i] = i end
    local function build(env)
      return p.gated(env, folder, values)
        :flat_map(function(n)
          local out = {}
          for i = 1, keys // 20 do out[i] = { k = (n - 1) % 20 * (keys // 20) + i, ts = n } end
          return out
        end)
        :watermarks { timestamp = "ts" }:uid("w")
        :key_by("k"):process { uid = "p", state = { n = sc.value() },
          on_element = function(ctx)
            ctx.state.n:set((ctx.state.n:get() or 0) + 1)
            ctx.timers:event_time(1000)
          end,
          on_timer = function(ctx) ctx:emit { k = ctx.key, n = ctx.state.n:get() } end }
    end
    local job = p.start(options, build)
    p.let(folder, 20)
    p.wait_for(job, function() return job:metrics("p").numRecordsIn == keys end)
    assert(job:checkpoint())
    job:cancel()
    assert(p.wait(job))
    p.let(folder, "end")
    options.parallelism = 2
    local rows = p.rows(options, build, { from = "latest" })
    assert.equals(keys, #rows)
    local seen = {}
    for _, row in ipairs(rows) do
      assert(row.n == 2 and not seen[row.k], row.k)
      seen[row.k] = true
    end
  end)
end)
