local fake = require "support.fake_core"
package.loaded["streamckpt.core"] = fake
local sc = require "streamckpt"

local function raised(fn)
  local ok, message = pcall(fn)
  assert.is_false(ok)
  local rest = message:match("^spec/lua/stream_spec%.lua:%d+: (.*)$")
  assert.is_string(rest, "not raised at the caller's line: " .. tostring(message))
  return rest
end

local function keep(value) return value end

local function plan_of(env)
  assert(env:start())
  return fake.plans[#fake.plans]
end

local function kinds(plan)
  local out = {}
  for i, operator in ipairs(plan.operators) do out[i] = operator.kind end
  return out
end

-- Edges as "1>2 forward", "2.late>3 hash(a,b)".
local function edges(plan)
  local out = {}
  for i, e in ipairs(plan.edges) do
    assert.equals(0, e.port)
    out[i] = ("%d%s>%d %s%s"):format(e.from, e.output == "main" and "" or "." .. e.output, e.to,
      e.partitioner, e.key and "(" .. table.concat(e.key, ",") .. ")" or "")
  end
  return out
end

describe("the graph", function()
  it("of a chain", function()
    local env = sc.env()
    env:from_file("f"):map(keep):filter(keep):flat_map(keep):to_file("out")
    local plan = plan_of(env)
    assert.same({ "file_source", "map", "filter", "flat_map", "file_sink" }, kinds(plan))
    assert.same({ "1>2 forward", "2>3 forward", "3>4 forward", "4>5 forward" }, edges(plan))
    assert.same({ outputs = { "main" }, dir = "out", format = "json", existing = "refuse" },
      plan.operators[5].options)
  end)

  it("calls operators by name or uid, and otherwise by where they were made", function()
    local env = sc.env()
    local s = env:from_file("f"):uid("log"):map(keep):name("parse")
    s:map(keep):print()
    local names, line = {}, debug.getinfo(1, "l").currentline - 1
    for i, operator in ipairs(plan_of(env).operators) do names[i] = operator.name end
    local place = ("at stream_spec.lua:%d"):format(line)
    assert.same({ "log", "parse", "map " .. place, "print " .. place }, names)
  end)

  it("branches where a stream is used twice", function()
    local env = sc.env()
    local s = env:from_file("f")
    s:print()
    s:collect()
    assert.same({ "1>2 forward", "1>3 forward" }, edges(plan_of(env)))
  end)

  it("rebalances where the parallelism differs, unless told otherwise", function()
    local env = sc.env { parallelism = 2 }
    env:from_file("f"):parallelism(1):map(keep):map(keep):print():parallelism(2)
    local plan = plan_of(env)
    assert.same({ "1>2 rebalance", "2>3 forward", "3>4 forward" }, edges(plan))
    for _, edge in ipairs(plan.edges) do assert.is_true(edge.unnamed) end -- the engine decides again
    assert.same({ 1, 0, 0, 2 }, { plan.operators[1].parallelism, plan.operators[2].parallelism,
      plan.operators[3].parallelism, plan.operators[4].parallelism })
    env = sc.env { parallelism = 2 }
    local s = env:from_file("f")
    s:rebalance():map(keep)
    s:broadcast():map(keep)
    s:forward():map(keep)
    plan = plan_of(env)
    assert.same({ "1>2 rebalance", "1>3 broadcast", "1>4 forward" }, edges(plan))
    for _, edge in ipairs(plan.edges) do assert.is_false(edge.unnamed) end
  end)

  it("refuses forward between different widths", function()
    local env = sc.env()
    env:from_file("f"):forward():map(keep):parallelism(3)
    assert.matches("needs the same parallelism on both sides, not 1 and 3",
      raised(function() local p = plan_of(env) return p end))
  end)

  it("hashes by fields without an operator, by a function with one", function()
    local env = sc.env { parallelism = 2 }
    local s = env:from_file("f"):parallelism(1)
    s:key_by("a"):reduce(keep)
    s:key_by({ "a", "b" }):process { on_element = keep }
    s:key_by(function(v) return v.k end):reduce(keep)
    local plan = plan_of(env)
    assert.same({ "file_source", "reduce", "process", "key_by", "reduce" }, kinds(plan))
    assert.same({ "1>2 hash(a)", "1>3 hash(a,b)", "1>4 forward", "4>5 hash" }, edges(plan))
    assert.is_true(plan.operators[2].keyed)
    assert.is_true(plan.operators[3].keyed)
    assert.is_false(plan.operators[4].keyed)
    -- The operator that computes keys runs as wide as what it follows, to be chained to it.
    assert.equals(1, plan.operators[4].parallelism)
  end)

  it("makes timestamps before watermarks where they come from a function", function()
    local env = sc.env()
    local s = env:from_file("f")
    s:watermarks { timestamp = "ts", out_of_orderness = "1min" }
    s:watermarks { timestamp = function(v) return v.ts end }
    s:watermarks()
    local plan = plan_of(env)
    assert.same({ "file_source", "watermarks", "timestamps", "watermarks", "watermarks" }, kinds(plan))
    assert.same({ "1>2 forward", "1>3 forward", "3>4 forward", "1>5 forward" }, edges(plan))
    assert.same({ outputs = { "main" }, field = "ts", out_of_orderness = 60000 }, plan.operators[2].options)
    assert.same({ outputs = { "main" }, out_of_orderness = 0 }, plan.operators[4].options)
  end)

  it("unites streams at one port", function()
    local env = sc.env()
    local a, b, c = env:from_file("a"), env:from_file("b"), env:from_file("c")
    a:union(b, c:rebalance()):map(keep)
    a:union(b):key_by("k"):reduce(keep)
    assert.same({ "1>4 forward", "2>4 forward", "3>4 rebalance", "1>5 hash(k)", "2>5 hash(k)" },
      edges(plan_of(env)))
    assert.matches("use key_by after union", raised(function() local s = a:union(b:key_by("x")) return s end))
    assert.matches("at least one other", raised(function() local s = a:union() return s end))
    assert.matches("needs streams, got 5", raised(function() local s = a:union(5) return s end))
    assert.matches("same environment",
      raised(function() local s = a:union(sc.env():from_file("x")) return s end))
  end)

  it("takes side outputs by name, each once", function()
    local env = sc.env()
    local p = env:from_file("f"):process { on_element = keep }
    p:side("late"):print()
    p:side("late"):collect()
    p:side("errors"):print()
    local plan = plan_of(env)
    assert.same({ "main", "late", "errors" }, plan.operators[2].options.outputs)
    assert.same({ "1>2 forward", "2.late>3 forward", "2.late>4 forward", "2.errors>5 forward" }, edges(plan))
    assert.matches("has no side outputs",
      raised(function() local s = env:from_file("f"):side("x") return s end))
    assert.matches("not 'main'", raised(function() local s = p:side("main") return s end))
  end)
end)

describe("operators", function()
  it("carry their settings into the plan", function()
    local env = sc.env { max_parallelism = 64 }
    env:from_file("f"):uid("src"):map(keep):uid("m"):name("mapper"):parallelism(3):max_parallelism(9)
      :start_new_chain():print("> "):disable_chaining():uid("p")
    local source, map, sink = table.unpack(plan_of(env).operators)
    assert.same({ "src", "src", 64, false },
      { source.uid, source.name, source.max_parallelism, source.auto_uid })
    assert.same({ "m", "mapper", 3, 9, true, false },
      { map.uid, map.name, map.parallelism, map.max_parallelism, map.start_new_chain, map.disable_chaining })
    assert.same({ "p", false, true, "> " },
      { sink.uid, sink.start_new_chain, sink.disable_chaining, sink.options.prefix })
  end)

  it("print without a prefix unless there is one", function()
    local env = sc.env()
    env:from_file("f"):print()
    env:from_file("g"):print("")
    local operators = plan_of(env).operators
    -- The engine refuses an empty prefix, as it does any empty text.
    assert.same({ "print_sink", "print_sink" }, { operators[2].kind, operators[4].kind })
    assert.is_nil(operators[2].options.prefix)
    assert.is_nil(operators[4].options.prefix)
  end)

  it("carry their functions and plain descriptors of their state", function()
    local env = sc.env()
    local function on_timer() return "t" end
    env:from_file("f"):key_by("k"):process {
      uid = "p", state = { n = sc.value(), seen = sc.map() }, on_element = keep, on_timer = on_timer,
      on_error = "skip",
    }
    local root = require("streamckpt.slot").load(plan_of(env).blob)
    local spec = root.operators[2]
    assert.same({ n = { kind = "value" }, seen = { kind = "map" } }, spec.state)
    assert.equals("skip", spec.on_error)
    assert.equals("t", spec.on_timer())
    assert.equals(8, spec.on_element(8))
    assert.is_nil(root.operators[1])
  end)

  it("refuse what is no function, and unknown fields", function()
    local env = sc.env()
    local s = env:from_file("f")
    assert.equals("map needs a function, got nil", raised(function() local x = s:map() return x end))
    assert.equals("process: unknown option 'on_elment'; did you mean 'on_element'?",
      raised(function() local x = s:process { on_elment = keep } return x end))
    assert.matches("process needs on_element", raised(function() local x = s:process {} return x end))
    assert.equals("process: snapshot is not built yet",
      raised(function() local x = s:process { on_element = keep, snapshot = keep } return x end))
    assert.matches("state.n must be a descriptor",

        raised(function()
          local x = s:key_by("k"):process { on_element = keep, state = { n = 1 } }
          return x
        end))
    assert.matches("process with state needs key_by",
      raised(function() local x = s:process { on_element = keep, state = { n = sc.value() } } return x end))
    assert.matches("process with on_timer needs key_by",
      raised(function() local x = s:process { on_element = keep, on_timer = keep } return x end))
    assert.matches("reduce needs key_by", raised(function() local x = s:reduce(keep) return x end))
    assert.matches("key_by needs the name of a field", raised(function() local x = s:key_by {} return x end))
    assert.matches("key_by needs the name of a field", raised(function() local x = s:key_by(3) return x end))
    assert.matches("existing must be one of",
      raised(function() local x = s:to_file("o", { existing = "keep" }) return x end))
    assert.matches("path of a folder", raised(function() local x = s:to_file() return x end))
    assert.matches("parallelism must be an integer",
      raised(function() local x = s:map(keep):parallelism(0) return x end))
    assert.matches("with a colon", raised(function() local x = s.map(keep) return x end))
  end)

  it("refuse arguments that they would ignore", function()
    local s = sc.env():from_file("f")
    assert.equals('key_by takes one key, several names as an array: key_by { "a", "b" }, got \'b\'',
      raised(function() local x = s:key_by("a", "b") return x end))
    assert.equals("collect takes no argument; its uid is given by :uid(...), got 'rows'",
      raised(function() local x = s:collect("rows") return x end))
    assert.equals("disable_chaining takes no argument, got false",
      raised(function() local x = s:map(keep):disable_chaining(false) return x end))
    assert.equals("rebalance takes no argument, got 4", raised(function() local x = s:rebalance(4) return x end))
  end)

  it("refuse settings where there is no operator to set", function()
    local s = sc.env():from_file("f")
    assert.matches("uid has nothing to act on",
      raised(function() local x = s:key_by("k"):uid("k") return x end))
    assert.matches("uid has nothing to act on", raised(function() local x = s:union(s):uid("u") return x end))
    s:key_by(keep):uid("k")
  end)

  it("name methods that are missing or not built yet", function()
    local s = sc.env():from_file("f")
    assert.equals("a stream has no method 'fliter'; did you mean 'filter'?",
      raised(function() local x = s:fliter(keep) return x end))
    assert.equals("stream:window is not built yet", raised(function() local x = s:window() return x end))
    assert.matches("a sink has no method", raised(function() local x = s:print():map(keep) return x end))
  end)

  it("print readably", function()
    local s = sc.env():from_file("f"):uid("log")
    assert.equals("streamckpt.stream<from_file 'log'>", tostring(s))
    assert.equals("streamckpt.stream<from_file 'log', keyed>", tostring(s:key_by("k")))
    assert.matches("^streamckpt.sink<print %(spec/lua/stream_spec.lua:%d+%)>$", tostring(s:print()))
  end)

  it("check parallelism against max_parallelism when the job starts", function()
    local env = sc.env()
    env:from_file("f"):uid("x"):parallelism(8):max_parallelism(4)
    assert.matches("from_file 'x': parallelism 8 is more than max_parallelism 4",
      raised(function() local p = plan_of(env) return p end))
  end)
end)

describe("uids", function()
  local function build(env)
    local s = env:from_file("f")
    s:map(keep):key_by("k"):reduce(keep):print()
    s:map(keep):collect()
    s:filter(keep)
    return plan_of(env)
  end

  it("are unique", function()
    local env = sc.env()
    env:from_file("f"):uid("a")
    assert.matches("uid 'a' is taken by from_file %(spec/lua/stream_spec.lua:%d+%)",
      raised(function() local s = env:from_file("g"):uid("a") return s end))
    env:from_file("g", { uid = "a" })
    assert.matches("uid 'a' is given to two operators",
      raised(function() local p = plan_of(env) return p end))
  end)

  it("267. derived ones are the same in every build, and all differ", function()
    local first, second = build(sc.env()), build(sc.env())
    local seen = {}
    for i, operator in ipairs(first.operators) do
      assert.equals(operator.uid, second.operators[i].uid)
      assert.is_true(operator.auto_uid)
      assert.is_nil(seen[operator.uid])
      seen[operator.uid] = true
    end
  end)

  it("267. derived ones are the same in another process", function()
    local script = [[
      package.loaded["streamckpt.core"] = {
        array = function(t) return setmetatable(t, {}) end,
        start = function(plan)
          for _, o in ipairs(plan.operators) do io.write(o.uid, " ") end
          return nil, "EFAILED: done", "EFAILED"
        end,
      }
      local sc = require "streamckpt"
      local env = sc.env()
      local s = env:from_file("f")
      s:map(print):key_by("k"):reduce(print):print()
      s:map(print):collect()
      s:filter(print)
      env:start()]]
    local path = os.tmpname()
    finally(function() os.remove(path) end)
    local file = assert(io.open(path, "w"))
    file:write(script)
    file:close()
    local pipe = assert(io.popen("lua5.4 " .. path .. " 2>&1"))
    local output = pipe:read("a")
    pipe:close()
    local mine = {}
    for i, operator in ipairs(build(sc.env()).operators) do mine[i] = operator.uid end
    assert.equals(table.concat(mine, " ") .. " ", output)
  end)

  it("derived ones do not change when an unrelated branch is added", function()
    local env = sc.env()
    env:from_file("z"):uid("z"):filter(keep):print()
    local with_more = build(env)
    for i, operator in ipairs(build(sc.env()).operators) do
      -- The other branch came first, and its source has a uid of its own.
      assert.equals(operator.uid, with_more.operators[i + 3].uid)
    end
  end)

  it("missing ones of operators with state are warned of where there are checkpoints", function()
    local env = sc.env { checkpoint = { dir = "d" } }
    env:from_file("f"):uid("f"):map(keep):key_by("k"):reduce(keep):print()
    local warnings = plan_of(env).job.warnings
    assert.equals(1, #warnings)
    assert.matches("^reduce %(spec/lua/stream_spec.lua:%d+%) has state but no uid", warnings[1])
    assert.same({}, build(sc.env()).job.warnings)
  end)
end)
