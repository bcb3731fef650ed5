-- Keys: what may be one, which are the same, and what is said about the others.
local p = require "support.pipeline"
local sc = require "streamckpt"

after_each(p.clean)

-- The counts of values by key, as strings "key=count", where `keys` are arrays {k} of one value each (so
-- that nil can be among them).
local function counts(keys, options)
  local rows = p.rows(options or { parallelism = 2 }, function(env)
    return env:from_values(keys)
      :key_by(function(v) return v.k end)
      :process {
        uid = "count", state = { n = sc.value() },
        on_element = function(ctx)
          local n = (ctx.state.n:get() or 0) + 1
          ctx.state.n:set(n)
          ctx:emit { key = ctx.key, n = n }
        end,
      }
  end)
  local out, last = {}, {}
  local function text(key)
    if type(key) ~= "table" then return (math.type(key) or type(key)) .. " " .. tostring(key) end
    local words = {}
    for i, part in ipairs(key) do words[i] = text(part) end
    return "[" .. table.concat(words, ",") .. "]"
  end
  for _, row in ipairs(rows) do last[text(row.key)] = row.n end
  for key, n in pairs(last) do out[#out + 1] = key .. " = " .. n end
  table.sort(out)
  return out
end

local function refusal(build)
  return p.failure({}, function(env)
    return build(env:from_values { { k = 1 } }):process {
      uid = "p", state = { n = sc.value() }, on_element = function() end,
    }
  end)
end

describe("keys", function()
  it("are strings, numbers, booleans, and arrays of these", function()
    assert.same({ "[integer 1,string a] = 1" }, counts { { k = { 1, "a" } } })
    assert.same({ "boolean false = 1", "boolean true = 1", "float 1.5 = 1", "integer 1 = 1", "string  = 1",
                  "string 1 = 1" },
      counts { { k = false }, { k = true }, { k = 1.5 }, { k = 1 }, { k = "" }, { k = "1" } })
  end)

  it("1 and 1.0 are one key, 2^53 and 2^53 + 1 are two", function()
    assert.same({ "integer 1 = 2", "integer 9007199254740992 = 2", "integer 9007199254740993 = 1" },
      counts { { k = 1 }, { k = 1.0 }, { k = 2.0 ^ 53 }, { k = (1 << 53) + 1 }, { k = 1 << 53 } })
  end)

  it("-0.0 is 0", function()
    assert.same({ "integer 0 = 3" }, counts { { k = 0.0 }, { k = -0.0 }, { k = 0 } })
  end)

  it("also inside arrays", function()
    assert.same({ "[integer 0,integer 1] = 2" }, counts { { k = { -0.0, 1 } }, { k = { 0, 1.0 } } })
  end)

  it("with zero bytes, and long ones, keep every byte", function()
    local long = ("k"):rep(3000)
    assert.same({ "string a\0b = 2", "string a\0c = 1", "string " .. long .. " = 1" },
      counts { { k = "a\0b" }, { k = "a\0c" }, { k = "a\0b" }, { k = long } })
  end)

  it("are the same in every task, whatever the parallelism", function()
    local keys = {}
    for i = 1, 300 do keys[i] = { k = i % 100 } end
    local expected = {}
    for i = 0, 99 do expected[i + 1] = ("integer %d = 3"):format(i) end
    table.sort(expected)
    for parallelism = 1, 4 do assert.same(expected, counts(keys, { parallelism = parallelism })) end
  end)

  it("that are nil, NaN or tables are refused with operator and record", function()
    local message = refusal(function(s) return s:key_by(function(v) return v.missing end) end)
    assert.matches("the function of key_by returned what cannot be a key", message, 1, true)
    assert.matches("nil", message, 1, true)
    assert.matches('record: {"k": 1}', message, 1, true)
    message = refusal(function(s) return s:key_by(function() return 0 / 0 end) end)
    assert.matches("NaN", message, 1, true)
    message = refusal(function(s) return s:key_by(function(v) return v end) end)
    assert.matches("cannot be a key", message, 1, true)
    message = refusal(function(s) return s:key_by(function() return { { 1 }, { x = 1 } } end) end)
    assert.matches("cannot be a key", message, 1, true)
    message = refusal(function(s) return s:key_by(function() return print end) end)
    assert.matches("function", message, 1, true)
  end)

  it("by the name of a field that is missing are refused with the field and the record", function()
    for _, field in ipairs { "nope", { "k", "nope" } } do
      local message = refusal(function(s) return s:key_by(field) end)
      assert.matches("nope", message, 1, true)
      assert.matches('{"k": 1}', message, 1, true)
    end
    local message = p.failure({}, function(env)
      return env:from_values { "text" }:key_by("k"):reduce(function(a) return a end):uid("r")
    end)
    assert.matches('"text"', message, 1, true)
  end)

  it("may come from a function that is not the same twice: each record has one key", function()
    -- The key is computed once, at the sender, and travels with the record.
    local rows = p.sorted({ parallelism = 2 }, function(env)
      local calls = 0
      return env:from_generator { count = 10 }
        :key_by(function() calls = calls + 1 return calls end)
        :process { uid = "p", state = { n = sc.value() }, on_element = function(ctx)
          assert(ctx.state.n:get() == nil or ctx.subtask)
          ctx.state.n:set(ctx.key)
          ctx:emit(ctx.state.n:get() == ctx.key)
        end }
        :map(function(same) return same and 1 or 0 end)
    end)
    assert.same({ 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 }, rows)
  end)

  it("cannot be changed by a function that changes its record afterwards", function()
    assert.same({ "a", "a" }, p.sorted({ parallelism = 2 }, function(env)
      return env:from_values { { k = "a" }, { k = "a" } }
        :key_by(function(v) local key = v.k v.k = "changed" return key end)
        :process { uid = "p", state = { n = sc.value() }, on_element = function(ctx) ctx:emit(ctx.key) end }
    end))
  end)

  it("do not exist before key_by", function()
    assert.matches("no current key", p.failure({}, function(env)
      return env:from_values { 1 }:process(function(ctx) ctx:emit(ctx.key) end)
    end), 1, true)
  end)
end)
