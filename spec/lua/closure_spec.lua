package.loaded["streamckpt.core"] = require "support.fake_core"
local closure = require "streamckpt.closure"
local slot = require "streamckpt.slot"

-- What goes through the string and back, in this state.
local function carry(root)
  return slot.load(assert(closure.dump(root)))
end

local function carry_one(value)
  return carry({ operators = { { value = value } } }).operators[1].value
end

local function write_file(path, text)
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
end

-- Run `script` in one fresh process, where it returns a root, and `check` in another one, where `root`
-- is what arrived. Returns what both printed; files are written to a folder that is on package.path.
local function between_processes(script, check, files)
  local dir = os.tmpname()
  os.remove(dir)
  assert(os.execute("mkdir " .. dir))
  for name, text in pairs(files or {}) do write_file(dir .. "/" .. name, text) end
  write_file(dir .. "/script.lua", ([[
    package.path = %q .. "/?.lua;" .. package.path
    local closure = require "streamckpt.closure"
    local function make()
    %s
    end
    local blob, refusal = closure.dump(make(), { "operator 'one'" })
    if not blob then print(refusal) end
    local out = assert(io.open(%q .. "/blob", "wb"))
    out:write(blob or "")
    out:close()]]):format(dir, script, dir))
  write_file(dir .. "/check.lua", ([[
    local blob = assert(io.open(%q .. "/blob", "rb")):read("a")
    local ok, root = pcall(require("streamckpt.slot").load, blob)
    if not ok then print(root) return end
    %s]]):format(dir, check or ""))
  local output = ""
  for _, name in ipairs { "script.lua", check and "check.lua" or nil } do
    local pipe = assert(io.popen(("lua5.4 %s/%s 2>&1"):format(dir, name)))
    output = output .. pipe:read("a")
    pipe:close()
  end
  os.execute("rm -r " .. dir)
  return output
end

describe("values", function()
  it("arrive exactly", function()
    local values = { 0, -1, math.maxinteger, math.mininteger, 1.0, -0.0, 0.1, 1e308, math.huge, -math.huge,
      2 ^ 53, "", "text", "zero \0 and \255", true, false, ("x"):rep(100000) }
    local back = carry_one(values)
    assert.equals(#values, #back)
    for i, value in ipairs(values) do
      assert.equals(value, back[i])
      assert.equals(math.type(value), math.type(back[i]))
      assert.equals(type(value) == "number" and 1 / value, type(back[i]) == "number" and 1 / back[i])
    end
    local nan = carry_one(0 / 0)
    assert.is_true(nan ~= nan)
  end)

  it("keep the identity of tables, in circles and as keys", function()
    local shared = { name = "shared" }
    local t = { a = shared, b = shared, [shared] = "key" }
    t.self = t
    local back = carry_one(t)
    assert.equals(back.a, back.b)
    assert.equals("key", back[back.a])
    assert.equals(back, back.self)
    assert.is_true(back ~= t)
  end)

  it("share tables between operators", function()
    local counts = {}
    local root = carry { operators = {
      { fn = function() counts.n = (counts.n or 0) + 1 end }, [3] = { fn = function() return counts.n end },
    } }
    root.operators[1].fn()
    root.operators[1].fn()
    assert.equals(2, root.operators[3].fn())
    assert.is_nil(counts.n)
  end)

  it("keep metatables of plain tables, protected and with finalizers", function()
    local Point = {}
    Point.__index = Point
    Point.__metatable = "locked"
    function Point:sum() return self.x + self.y end
    local back = carry_one(setmetatable({ x = 1, y = 2 }, Point))
    assert.equals(3, back:sum())
    assert.equals("locked", getmetatable(back))
    local log = {}
    local meta = { __gc = function() log.done = true end }
    local holder = carry_one { object = setmetatable({}, meta), log = log }
    holder.object = nil
    collectgarbage()
    assert.is_true(holder.log.done)
  end)

  it("are not asked through their metamethods", function()
    local meta = { __pairs = error, __len = error, __index = error, __eq = error }
    local trap = setmetatable({ 1, 2, 3 }, meta)
    assert.same({ 1, 2, 3 }, { table.unpack(carry_one(trap), 1, 3) })
  end)

  it("travel however deep they are", function()
    local list
    for i = 1, 100000 do list = { next = list, i = i } end
    local back, n = carry_one(list), 0
    while back do
      n = n + 1
      back = back.next
    end
    assert.equals(100000, n)
  end)
end)

describe("functions", function()
  it("share their upvalues as they did", function()
    local n = 0
    local function bump() n = n + 1 return n end
    local function read() return n end
    local back = carry_one { bump = bump, read = read, again = bump }
    back.bump()
    assert.equals(1, back.read())
    assert.equals(0, n)
    assert.equals(back.bump, back.again)
  end)

  it("of one place do not share what they did not share", function()
    local function counter()
      local n = 0
      return function() n = n + 1 return n end
    end
    local back = carry_one { counter(), counter() }
    assert.equals(1, back[1]())
    assert.equals(2, back[1]())
    assert.equals(1, back[2]())
  end)

  it("call themselves and each other", function()
    local even, odd
    function even(n) if n == 0 then return true end return odd(n - 1) end
    function odd(n) if n == 0 then return false end return even(n - 1) end
    assert.is_true(carry_one(even)(10))
  end)

  it("have nil upvalues and variable arguments", function()
    local nothing = nil
    local back = carry_one(function(...) return nothing, select("#", ...), ... end)
    assert.same({ n = 4, nil, 2, "a", "b" }, table.pack(back("a", "b")))
  end)

  it("find _ENV by its value, wherever it stands among the upvalues", function()
    -- Here _ENV is the second upvalue, which load would not set.
    local make = load([[
      local before = ...
      return function() return before, tostring(_G == _ENV) end]], "=script")
    assert.same({ "x", "true" }, { carry_one(make("x"))() })
  end)

  it("take an empty _ENV that only looks into the globals for the globals", function()
    -- As test runners give their files one.
    local view = setmetatable({}, { __index = function(_, name) return _G[name] end })
    local make = load("return function() return _ENV end", "=script", "t", view)
    assert.equals(load("return _G")(), carry_one(make())())
  end)

  it("keep an _ENV of their own", function()
    local sandbox = { answer = 42 }
    local fn = load("return function() return answer, print end", "=box", "t", sandbox)()
    assert.same({ 42 }, { carry_one(fn)() })
  end)

  it("travel without debug information, too", function()
    local fn = load(string.dump(load("local a = 5; return function() return a end"), true))()
    assert.equals(5, carry_one(fn)())
  end)

  it("write their bytecode once", function()
    local function make(i) return function() return i end end
    local few, many = {}, {}
    for i = 1, 2 do few[i] = make(i) end
    for i = 1, 1002 do many[i] = make(i) end
    local function size(value) return #assert(closure.dump { operators = { { value = value } } }) end
    assert.is_true((size(many) - size(few)) / 1000 < 100)
  end)
end)

describe("what has a name in every state", function()
  it("travels by its name", function()
    for _, value in ipairs { string.format, string, math.floor, print, _G, io.stdout, require, closure,
                             closure.dump, coroutine.wrap } do
      assert.equals(value, carry_one(value))
    end
  end)

  it("marks arrays as they are marked in each state", function()
    local sc = require "streamckpt"
    local back = carry_one { empty = sc.array {}, null = sc.null }
    assert.equals(getmetatable(sc.array {}), getmetatable(back.empty))
    assert.equals(sc.null, back.null)
  end)

  it("is found even where the script replaced it", function()
    assert.equals("replaced\t1\n", between_processes([[
      local old = print
      print = function(...) old("replaced", ...) end
      return { operators = { { fn = function() print(1) end } } }]], "root.operators[1].fn()"))
  end)

  it("a module is required, and its functions, classes and C functions are its own", function()
    local module = [[
      local M = { count = 0 }
      local Class = {}
      Class.__index = Class
      M.Class = Class
      M.inner = { f = function() return "deep" end }
      function M.bump() M.count = M.count + 1 return M.count end
      function M.new() return setmetatable({}, Class) end
      print("loaded")
      return M]]
    local output = between_processes([[
      local M = require "my_module"
      local bump, object, f = M.bump, M.new(), M.inner.f
      return { operators = { { fn = function() return bump(), getmetatable(object), M, f end } } }]], [[
      local n, class, M, f = root.operators[1].fn()
      print(n, M == require "my_module", class == M.Class, M.count, f == M.inner.f)]],
      { ["my_module.lua"] = module })
    assert.equals("loaded\nloaded\n1\ttrue\ttrue\t1\ttrue\n", output)
  end)

  it("does not count if only this process can find it", function()
    assert.equals("7\tfunction\n", between_processes([[
      package.preload.mine = function() return { seven = function() return 7 end } end
      local M = require "mine"
      function string.trim(s) return s:match("^%s*(.-)%s*$") end
      return { operators = { { fn = function() return M.seven() end } } }]],
      "print(root.operators[1].fn(), type(string.trim))"))
  end)

  it("a function that the script put into a module travels by value", function()
    assert.equals("mine\n", between_processes([[
      local M = require "my_module"
      M.extra = function() return "mine" end
      local extra = M.extra
      return { operators = { { fn = function() return extra() end } } }]],
      "print(root.operators[1].fn())", { ["my_module.lua"] = "return {}" }))
  end)

  it("a module that cannot be loaded in a slot is named", function()
    local output = between_processes([[
      local M = require "once"
      return { operators = { { fn = function() return M end } } }]], "", { ["once.lua"] = [[
      local file = io.open(package.searchpath("once", package.path) .. ".seen")
      if file then error("no second time") end
      io.open(package.searchpath("once", package.path) .. ".seen", "w"):close()
      return {}]] })
    assert.matches("^module 'once', which functions of the job use, cannot be loaded in a slot: .*"
      .. "no second time", output)
  end)
end)

describe("globals of the script", function()
  it("travel with their functions", function()
    assert.equals("12\tshared\n", between_processes([[
      factor = 6
      function double(x) return x * 2 end
      config = { name = "shared" }
      return { operators = { { fn = function() return double(factor), config.name end } } }]],
      "print(root.operators[1].fn())"))
  end)

  it("share what they hold with the operators' functions", function()
    assert.equals("true\n", between_processes([[
      registry = {}
      local r = registry
      return { operators = { { fn = function() return r == registry end } } }]],
      "print(root.operators[1].fn())"))
  end)

  it("that cannot travel become stubs, which raise their name when used", function()
    local output = between_processes([[
      handle = io.tmpfile()
      app = { name = "app", log = io.tmpfile(), co = coroutine.create(print) }
      function use() return handle:read() end
      return { operators = { { fn = function() return use() end, app = function() return app end } } }]], [[
      print(select(2, pcall(root.operators[1].fn)))
      local app = root.operators[1].app()
      print(app.name)
      print(select(2, pcall(function() return app.log .. "x" end)))
      print(select(2, pcall(app.co)))]])
    local lines = {}
    for line in output:gmatch("[^\n]+") do lines[#lines + 1] = line end
    assert.matches("script.lua:%d+: global 'handle' of the script was not carried into the slots, "
      .. "because it is a userdata %(FILE%*%); make it in 'open'", lines[1])
    assert.equals("app", lines[2])
    assert.matches("global 'app', field 'log' of the script was not carried", lines[3])
    assert.matches("a coroutine", lines[4])
  end)
end)

describe("what cannot travel", function()
  local function refusal(value)
    local blob, message = closure.dump({ operators = { { on_element = value } } }, { "operator 'one'" })
    assert.is_nil(blob)
    return message
  end

  it("is named with operator, function, upvalue and the cure", function()
    local file = io.tmpfile()
    finally(function() file:close() end)
    local message = refusal(function() return file end)
    assert.matches("^operator 'one' cannot run in the slots: the function at spec/lua/closure_spec.lua:%d+ "
      .. "%(on_element%) holds upvalue 'file', which is a userdata %(FILE%*%); make it in 'open'", message)
    local db = { connection = { file } }
    local function helper() return db end
    assert.matches("%(upvalue 'helper'%) holds upvalue 'db', field 'connection', field %[1%], which is",
      refusal(function() return helper() end))
  end)

  it("are coroutines, and C functions that no module has", function()
    local co, iterator = coroutine.create(print), ("x"):gmatch(".")
    assert.matches("upvalue 'co', which is a coroutine", refusal(function() return co end))
    assert.matches("upvalue 'iterator', which is a C function that no loaded module has",
      refusal(function() return iterator end))
  end)

  it("is found in keys and metatables, too", function()
    local co = coroutine.create(print)
    local t = setmetatable({}, { __index = co })
    assert.matches("upvalue 't', its metatable, field '__index', which is", refusal(function() return t end))
    local k = { [co] = 1 }
    assert.matches("upvalue 'k', a key, which is", refusal(function() return k end))
  end)

  it("is shown by the ends of a long way", function()
    local list = { co = coroutine.create(print) }
    for _ = 1, 50 do list = { next = list } end
    local message = refusal(function() return list end)
    assert.matches("upvalue 'list', field 'next', .*%.%.%., .*field 'co', which is a coroutine", message)
    assert.is_true(#message < 500)
  end)
end)

describe("a string that is none of ours", function()
  it("is refused", function()
    assert.has_error(function() slot.load("nonsense") end,
      "the functions of the job are not in a format that this version of streamckpt reads")
    assert.has_error(function() slot.load(closure.MAGIC .. string.pack("<s4s4s4", "Lua 5.9", "", "")) end,
      "the functions of the job were made by Lua 5.9, and this is Lua 5.4")
  end)
end)

describe("random graphs", function()
  -- Tables with random fields, shared and circular, against a comparison that walks both in step.
  local function random_graph(rng)
    local tables = {}
    for i = 1, rng(2, 40) do tables[i] = {} end
    for _ = 1, #tables * 3 do
      local t = tables[rng(#tables)]
      local pick = rng(4)
      local value = pick == 1 and tables[rng(#tables)] or pick == 2 and rng(0) or pick == 3 and rng(100) / 7
        or ("s"):rep(rng(0, 5))
      t[rng(2) == 1 and rng(5) or "k" .. rng(5)] = value
    end
    return tables[1]
  end

  local function same_shape(a, b, seen)
    if type(a) ~= "table" then return a == b and math.type(a) == math.type(b) end
    if seen[a] then return seen[a] == b end
    seen[a] = b
    local count = 0
    for key, value in next, a do
      count = count + 1
      if not same_shape(value, b[key], seen) then return false end
    end
    for _ in next, b do count = count - 1 end
    return count == 0
  end

  it("arrive in the same shape", function()
    for seed = 1, 60 do
      math.randomseed(seed)
      local graph = random_graph(math.random)
      assert.is_true(same_shape(graph, carry_one(graph), {}), "seed " .. seed)
    end
  end)
end)
