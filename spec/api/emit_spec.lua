-- ctx:emit from everywhere that a function may be in: where it can be suspended and where it cannot.
local p = require "support.pipeline"

after_each(p.clean)

-- Ways to emit the values from, from + 1, ... below `to`, in that order; from some of them a suspended
-- emission would reach the wrong resumer, or none.
local WAYS = {
  plainly = function(ctx, from, to) for i = from, to - 1 do ctx:emit(i) end end,
  ["in a protected call"] = function(ctx, from, to)
    for i = from, to - 1 do
      pcall(function() ctx:emit(i) error("caught") end)
    end
  end,
  ["in a comparison of sort"] = function(ctx, from, to)
    local i = from
    -- 16 values need more than 15 comparisons, whatever the algorithm is.
    while i < to do
      local values = { 7, 3, 9, 1, 15, 4, 12, 8, 2, 16, 5, 11, 6, 14, 10, 13 }
      table.sort(values, function(a, b)
        if i < to then ctx:emit(i) i = i + 1 end
        return a < b
      end)
    end
  end,
  ["in a callback of gsub"] = function(ctx, from, to)
    local i = from
    local _ = ("x"):rep(to - from):gsub("x", function() ctx:emit(i) i = i + 1 end)
  end,
  ["in a coroutine of its own"] = function(ctx, from, to)
    local co = coroutine.wrap(function() for i = from, to - 1 do ctx:emit(i) coroutine.yield(true) end end)
    while co() do end
  end,
  ["in a coroutine in a coroutine"] = function(ctx, from, to)
    coroutine.wrap(function()
      for i = from, to - 1 do coroutine.wrap(function() ctx:emit(i) end)() end
    end)()
  end,
  ["in metamethods"] = function(ctx, from, to)
    local t = setmetatable({}, { __index = function(_, i) ctx:emit(i) end,
                                 __call = function(_, i) ctx:emit(i) end })
    for i = from, to - 1 do local _ = i % 2 == 0 and t[i] or i % 2 == 1 and t(i) end
  end,
  ["when a variable is closed"] = function(ctx, from, to)
    for i = from, to - 1 do
      local _ <close> = setmetatable({}, { __close = function() ctx:emit(i) end })
    end
  end,
  ["in a reader of load"] = function(ctx, from, to)
    local i = from
    load(function()
      if i == to then return nil end
      ctx:emit(i)
      i = i + 1
      return " "
    end)
  end,
}

-- What each record of a flat_map emits: plain ones around those of the way, so that their order shows.
local EACH = 40

local function expected(records)
  local all = {}
  for i = 1, records * EACH do all[i] = i - 1 end
  return all
end

local function emitting(way)
  return function(n, ctx)
    local from = n * EACH
    ctx:emit(from)
    way(ctx, from + 1, from + EACH - 1)
    ctx:emit(from + EACH - 1)
  end
end

-- A buffer holds a few of the values, so that exchanges are full all the time.
local TIGHT = { segment_size = 1024, exclusive_buffers = 1, floating_buffers = 1 }

for name, way in pairs(WAYS) do
  describe("emit " .. name, function()
    it("hands on within a chain, in order", function()
      assert.same(expected(50), p.rows({}, function(env)
        return env:from_generator { count = 50 }:flat_map(emitting(way)):map(function(v) return v end)
      end))
    end)

    it("hands on through an exchange that is full, in order, while barriers pass", function()
      local folder = p.folder()
      local pad = ("."):rep(100)
      local rows, result = p.rows({ id = "emit", network = TIGHT, checkpoint = { interval = 1, dir = folder } },
        function(env)
          return env:from_generator { count = 300 }:flat_map(emitting(way)):uid("emits")
            :map(function(v) return { v, pad } end):start_new_chain()
            :map(function(v) return v[1] end):start_new_chain()
        end)
      assert.same(expected(300), rows)
      assert.is_true(result:checkpoints().counts.completed > 0)
    end)

    it("counts once across a restart", function()
      local folder = p.folder()
      -- Behind a hundred records the source waits for a checkpoint, without which a mistake ends the job.
      local function read(ctx, _, at)
        at = at or 0
        if at == 300 then return nil end
        if at == 100 then
          local listing <close> = io.popen("ls " .. folder .. "/emit/*/_metadata 2>/dev/null")
          if not listing:read() then return at, 1 end
        end
        ctx:emit(at)
        return at + 1
      end
      local rows, result = p.rows({ id = "emit", network = TIGHT, checkpoint = { interval = 1, dir = folder },
                                    restart = { strategy = "fixed_delay", attempts = 1, delay = 0 } },
        function(env)
          return env:source { splits = function() return { 0 } end, read = read }:uid("numbers")
            :flat_map(emitting(way)):uid("emits"):start_new_chain()
            :map(function(v)
              local once = folder .. "/failed"
              if v == 200 * EACH and not io.open(once) then
                io.open(once, "w"):close()
                error("once")
              end
              return v
            end):uid("fails"):start_new_chain()
        end)
      assert.same(expected(300), rows)
      assert.equals(1, result:status().restarts)
    end)
  end)
end
