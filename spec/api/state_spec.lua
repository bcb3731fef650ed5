-- Keyed state: value and map, as a script sees them.
local p = require "support.pipeline"
local sc = require "streamckpt"

after_each(p.clean)

-- Rows of a process over values {k = key, ...}, one task.
local function process(values, state, on_element, options)
  return p.rows(options or {}, function(env)
    return env:from_values(values):key_by("k"):process { uid = "p", state = state, on_element = on_element }
  end)
end

describe("a value", function()
  it("is nil at first, then what was set, until it is cleared", function()
    assert.same({ false, "x", false, false },
      process({ { k = 1, set = "x" }, { k = 1, clear = true }, { k = 1, set = "y", drop = true }, { k = 1 } },
        { v = sc.value() }, function(ctx, e)
          ctx:emit(ctx.state.v:get() or false)
          if e.set then ctx.state.v:set(e.set) end
          if e.drop then ctx.state.v:set(nil) end
          if e.clear then ctx.state.v:clear() end
        end))
  end)

  it("is each key's own", function()
    assert.same({ "a1", "b1", "a2", "b2", "a3" },
      process({ { k = "a" }, { k = "b" }, { k = "a" }, { k = "b" }, { k = "a" } }, { n = sc.value() },
        function(ctx)
          ctx.state.n:set((ctx.state.n:get() or 0) + 1)
          ctx:emit(ctx.key .. ctx.state.n:get())
        end))
  end)

  it("is a copy: changing what was read or set changes nothing", function()
    assert.same({ { 1 }, { 1 } }, process({ { k = 1 }, { k = 1 } }, { v = sc.value() }, function(ctx)
      local t = ctx.state.v:get()
      if t then
        t[2] = "changed"
      else
        t = { 1 }
        ctx.state.v:set(t)
        t[2] = "changed"
      end
      ctx:emit(ctx.state.v:get())
    end))
  end)

  it("may be false, which is not nil", function()
    assert.same({ "nil", "false" }, process({ { k = 1 }, { k = 1 } }, { v = sc.value() }, function(ctx)
      ctx:emit(tostring(ctx.state.v:get()))
      ctx.state.v:set(false)
    end))
  end)
end)

describe("a map", function()
  it("has get, set, has, remove and clear", function()
    assert.same({ { false, false }, { 1, true }, { false, false }, { false, false } },
      process({ { k = 1, act = "set" }, { k = 1, act = "remove" }, { k = 1, act = "set_nil" }, { k = 1 } },
        { m = sc.map() }, function(ctx, e)
          local m = ctx.state.m
          ctx:emit { m:get("x") or false, m:has("x") }
          if e.act == "set" then m:set("x", 1) end
          if e.act == "remove" then m:remove("x") end
          if e.act == "set_nil" then
            m:set("x", 5)
            m:set("y", 6)
            m:set("x", nil)
            assert(m:has("y"))
            m:clear()
            assert(not m:has("y"))
          end
        end))
  end)

  it("has keys of every kind that a key may have; 1 and 1.0 are one", function()
    assert.same({ { "one!", "float", "yes", "pair" } }, process({ { k = 1 } }, { m = sc.map() }, function(ctx)
      local m = ctx.state.m
      m:set(1, "one")
      m:set(1.0, "one!")
      m:set(1.5, "float")
      m:set(true, "yes")
      m:set({ 1, "a" }, "pair")
      ctx:emit { m:get(1), m:get(1.5), m:get(true), m:get { 1, "a" } }
    end))
  end)

  it("iterates over what was there when the iteration began", function()
    local rows = process({ { k = 1 } }, { m = sc.map() }, function(ctx)
      local m = ctx.state.m
      for i = 1, 5 do m:set(i, i * i) end
      local seen = {}
      for key, value in m:pairs() do
        seen[#seen + 1] = key * 100 + value
        m:remove(key)
        m:set(key + 100, 0)
      end
      table.sort(seen)
      local left = 0
      for _ in m:pairs() do left = left + 1 end
      ctx:emit { seen = seen, left = left }
    end)
    assert.same({ { seen = { 101, 204, 309, 416, 525 }, left = 5 } }, rows)
  end)

  it("iterates while values are emitted in between", function()
    assert.same({ 1, 2, 3 }, process({ { k = 1 } }, { m = sc.map() }, function(ctx)
      for i = 1, 3 do ctx.state.m:set(i, i) end
      for key in ctx.state.m:pairs() do ctx:emit(key) end
    end))
  end)

  it("does not iterate beyond its call", function()
    local message = p.failure({}, function(env)
      return env:from_values { { k = 1 }, { k = 1 } }:key_by("k"):process {
        uid = "p", state = { m = sc.map() },
        on_element = function(ctx)
          if _G.kept then _G.kept() end
          for i = 1, 3 do ctx.state.m:set(i, i) end
          _G.kept = ctx.state.m:pairs()
          _G.kept()
        end,
      }
    end)
    assert.matches("state_spec.lua:%d+: ", message)
  end)

  it("holds many entries", function()
    assert.same({ 3000 }, process({ { k = 1 } }, { m = sc.map() }, function(ctx)
      for i = 1, 3000 do ctx.state.m:set("key" .. i, { i }) end
      local sum = 0
      for _, v in ctx.state.m:pairs() do sum = sum + v[1] end
      assert(sum == 3000 * 3001 // 2)
      local n = 0
      for _ in ctx.state.m:pairs() do n = n + 1 end
      ctx:emit(n)
    end))
  end)
end)

describe("state", function()
  it("of several names is separate, also from that of another operator", function()
    local rows = p.rows({}, function(env)
      local function count(ctx, n)
        ctx.state.a:set((ctx.state.a:get() or 0) + 1)
        ctx.state.b:set("x", (ctx.state.b:get("x") or 0) + 10)
        ctx:emit { k = 1, a = ctx.state.a:get(), b = ctx.state.b:get("x"), before = n.a }
      end
      local state = { a = sc.value(), b = sc.map() }
      return env:from_values { { k = 1 }, { k = 1 } }
        :key_by("k"):process { uid = "one", state = state, on_element = count }
        :key_by("k"):process { uid = "two", state = state, on_element = count }
    end)
    assert.same({ { k = 1, a = 1, b = 10, before = 1 }, { k = 1, a = 2, b = 20, before = 2 } }, rows)
  end)

  it("comes back from a checkpoint, at any parallelism", function()
    local folder = p.folder()
    local values = {}
    for i = 1, 60 do values[i] = { k = i % 20 } end
    local function build(env)
      return p.gated(env, folder, values):key_by("k"):process {
        uid = "p", state = { n = sc.value(), seen = sc.map() },
        on_element = function(ctx)
          local n = (ctx.state.n:get() or 0) + 1
          ctx.state.n:set(n)
          ctx.state.seen:set(n, ctx.key)
          local entries = 0
          for _, key in ctx.state.seen:pairs() do
            assert(key == ctx.key)
            entries = entries + 1
          end
          ctx:emit { k = ctx.key, n = n, entries = entries }
        end,
      }
    end
    local options = p.checkpointing(folder, { parallelism = 2 })
    local job = p.start(options, build)
    p.let(folder, 30)
    p.wait_for(job, function() return job:metrics("p").numRecordsIn == 30 end)
    local id = assert(job:checkpoint())
    assert.equals(30, #job:rows("rows"))
    job:cancel()
    assert.equals("canceled", p.wait(job).state)
    p.let(folder, "end")
    options.parallelism = 3
    local rows, result = p.rows(options, build, { from = "latest" })
    assert.equals(30, #rows)
    local last = {}
    for _, row in ipairs(rows) do
      assert.equals(row.n, row.entries)
      last[row.k] = math.max(last[row.k] or 0, row.n)
    end
    for k = 0, 19 do assert.equals(3, last[k]) end
    assert.equals(1, result:checkpoints().counts.restored)
    assert.equals(id, result:checkpoints().latest.restored.id)
  end)

  it("belongs to a key: open and a stream without key_by have none", function()
    assert.matches("no current key", p.failure({}, function(env)
      return env:from_values { { k = 1 } }:key_by("k"):process {
        uid = "p", state = { v = sc.value() }, open = function(ctx) ctx.state.v:set(1) end,
        on_element = function() end,
      }
    end), 1, true)
    assert.matches("process with state needs key_by before it", p.failure({}, function(env)
      return env:from_values { 1 }:process { state = { v = sc.value() }, on_element = function() end }
    end), 1, true)
  end)

  it("is called with a colon, by names that exist", function()
    local function failure(on_element)
      return p.failure({}, function(env)
        return env:from_values { { k = 1 } }:key_by("k"):process {
          uid = "p", state = { v = sc.value(), m = sc.map() }, on_element = on_element,
        }
      end)
    end
    assert.matches("call it with a colon: ctx.state.NAME:get()",
      failure(function(ctx) ctx.state.v.get() end), 1, true)
    assert.matches("w", failure(function(ctx) ctx.state.w:get() end), 1, true)
    assert.matches("push", failure(function(ctx) ctx.state.v:push(1) end), 1, true)
    assert.matches("must be a boolean, a number, a string", failure(function(ctx) ctx.state.m:get(nil) end), 1, true)
  end)
end)
