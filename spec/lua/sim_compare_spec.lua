-- sim_compare: what runs without failures agree on, and what another run has otherwise.
local sim_compare = require "streamckpt.sim_compare"

local SINK = { label = "to_file 'out'", kind = "file", ordered = true }

-- A result as core.simulate gives it: of one sink, with rows and keys (row to key), and states.
local function run(rows, options)
  options = options or {}
  local keys = {}
  for row, key in pairs(options.keys or {}) do
    keys[#keys + 1], keys[#keys + 2] = key, row
  end
  return { sinks = { { rows = rows, keys = keys } }, states = options.states or {} }
end

local function state(key, value, map_key)
  return { uid = "count", state = "n", key = key, value = value, map_key = map_key }
end

local function texts(list)
  local out = {}
  for i, difference in ipairs(list) do out[i] = difference.text end
  return out
end

-- Differences and notes of `other` from clean runs, as texts.
local function differ(clean, other, sink)
  sink = sink or SINK
  local known = sim_compare.learn(clean, { sink })
  local differences, notes = sim_compare.differences(known, other, { sink }, { count = "process 'count'" })
  return texts(differences), texts(notes), known
end

describe("rows of a sink", function()
  it("may come in any order, where none is promised", function()
    assert.same({}, (differ({ run { "1", "2" } }, run { "2", "1" })))
  end)

  it("that are missing, come twice, or are strange are counted, the first by bytes is shown", function()
    local differences = differ({ run { "1", "2", "3", "4", "4" } }, run { "4", "4", "4", "3", "9", "8" })
    assert.same({
      "to_file 'out': 2 rows are missing, 1 among them",
      "to_file 'out': 1 row was written twice: 4",
      "to_file 'out': 2 rows that a run without failures does not have, 8 among them",
    }, differences)
  end)

  it("are cut where they are long", function()
    local long = ("x"):rep(300)
    local text = differ({ run { long } }, run {})[1]
    assert.is_true(#text < 200)
    assert.matches("x%.%.%.$", text)
  end)

  it("are only counted where clean runs have others", function()
    local clean = { run { "1", "2" }, run { "1", "3" } }
    local differences, _, known = differ(clean, run { "7", "8" })
    assert.same({}, differences)
    assert.same({ false, true }, { known.sinks[1].stable, known.sinks[1].counted })
    assert.same({ "to_file 'out': 1 row instead of 2" }, (differ(clean, run { "7" })))
    assert.same({ "to_file 'out': 3 rows instead of 2" }, (differ(clean, run { "7", "8", "9" })))
  end)

  it("are not compared where not even their number is the same", function()
    assert.same({}, (differ({ run { "1" }, run { "1", "1" } }, run {})))
  end)

  it("may be given to a function twice where that is accepted: a note", function()
    local sink = { label = "to 'tell'", kind = "calls" }
    local clean = { run { "1", "2" } }
    assert.matches("^to 'tell': 1 row was given to it twice: 2; a sink's function",
                   differ(clean, run { "1", "2", "2" }, sink)[1])
    sink.at_least_once = true
    local differences, notes = differ(clean, run { "1", "2", "2" }, sink)
    assert.same({}, differences)
    assert.same({ "to 'tell': 1 row was given to it twice: 2" }, notes)
    assert.same({ "to 'tell': 1 row is missing: 1" }, (differ(clean, run { "2" }, sink)))
  end)
end)

describe("the order of a key's rows", function()
  local KEYS = { keys = { a1 = "a", a2 = "a", a3 = "a", b1 = "b", b2 = "b" } }
  local CLEAN = { run({ "a1", "b1", "a2", "b2", "a3" }, KEYS), run({ "b1", "b2", "a1", "a2", "a3" }, KEYS) }

  it("is that of all clean runs, whatever lies between", function()
    assert.same({}, (differ(CLEAN, run { "a1", "a2", "b1", "a3", "b2" })))
    assert.same({ "to_file 'out': rows of one key come in another order: number 2 is a3, not a2" },
                (differ(CLEAN, run { "a1", "b1", "a3", "b2", "a2" })))
  end)

  it("is not asked for where clean runs differ in it, or no order is promised, or a row has two keys", function()
    local clean = { CLEAN[1], run({ "b2", "b1", "a1", "a2", "a3" }, KEYS) }
    assert.same({}, (differ(clean, run { "b2", "a1", "b1", "a2", "a3" })))
    assert.same(1, #differ(clean, run { "b2", "a2", "b1", "a1", "a3" }))
    assert.same({}, (differ(clean, run { "b2", "a2", "b1", "a1", "a3" }, { label = "x", kind = "file" })))
    local twice = run({ "1", "1", "2" }, { keys = {} })
    twice.sinks[1].keys = { "a", "1", "b", "1", "a", "2" }
    assert.same({}, (differ({ twice }, run { "2", "1", "1" })))
  end)

  it("is looked at only where the rows are the same", function()
    assert.same({ "to_file 'out': 1 row is missing: a1" }, (differ(CLEAN, run { "b1", "a3", "b2", "a2" })))
  end)
end)

describe("the state that is left", function()
  local CLEAN = { run({}, { states = { state('"k1"', "5"), state('"k2"', "7"), state('"k3"', "1", '"m"') } }) }

  it("is compared by key and entry, a sentence a state", function()
    assert.same({ "process 'count', state 'n': key \"k1\" has 6, not 5" },
      (differ(CLEAN, run({}, { states = { state('"k2"', "7"), state('"k1"', "6"), state('"k3"', "1", '"m"') } }))))
    assert.same({ "process 'count', state 'n': key \"k1\" is gone, it was 5 (and 2 more)" },
      (differ(CLEAN, run({}, { states = { state('"k4"', "7"), state('"k2"', "7") } }))))
  end)

  it("is not compared where clean runs differ in it", function()
    local clean = { CLEAN[1], run({}, { states = { state('"k1"', "5") } }) }
    local differences, _, known = differ(clean, run({}, { states = {} }))
    assert.same({}, differences)
    assert.same({ ["count\0n"] = true }, known.unstable_states)
  end)
end)
