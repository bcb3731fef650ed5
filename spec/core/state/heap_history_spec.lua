-- Random histories of one window against a plain model: every read, every iterator, and the file of
-- every snapshot, which must hold what the model held at its freeze.
local probe = require "streamckpt.probe"
local temp_dir = require "support.temp_dir"

local VALUE, MAP = 1, 3
local SEP = "|"

describe("heap backend over random histories", function()
  local dir
  setup(function() dir = temp_dir.create() end)
  teardown(function() temp_dir.remove(dir) end)

  local function new_run(seed)
    math.randomseed(seed)
    local h = probe.heap_new("random", 0, 3)
    return {
      seed = seed, h = h,
      v = probe.heap_declare(h, "v", VALUE), m = probe.heap_declare(h, "m", MAP),
      values = {}, maps = {},     -- the model: "key|namespace" -> value, or map key -> value
      cuts = {},                  -- { id, rows, snap } in order; snap once ready handed it out
      iterators = {}, id = 0, files = 0,
    }
  end

  local function fail_text(run) return "seed " .. run.seed end

  local function pick()
    local k = math.random(0, 9)
    local space = math.random(3) == 1 and "n" or ""
    return k % 4, "k" .. k, space, "k" .. k .. SEP .. space
  end

  local function map_key() return "m" .. math.random(0, 15) end
  local function value() return ("x"):rep(math.random(0, 12)) .. math.random(1000) end

  -- The model's content as the rows of a file would name it.
  local function model_rows(run)
    local rows = {}
    for at, v in pairs(run.values) do rows["v" .. SEP .. at] = v end
    for at, map in pairs(run.maps) do
      for k, v in pairs(map) do rows["m" .. SEP .. at .. SEP .. k] = v end
    end
    return rows
  end

  local function file_rows(handle)
    local rows = {}
    for _, r in ipairs((probe.heap_rows(handle, dir))) do
      local name = table.concat({ r.state, r.key, r.space, r.map_key }, SEP)
      assert.is_nil(rows[name])
      rows[name] = r.value
    end
    return rows
  end

  local function sorted_entries(map, from)
    local list = {}
    for k, v in pairs(map or {}) do
      if not from or k >= from then list[#list + 1] = { k, v } end
    end
    table.sort(list, function(a, b) return a[1] < b[1] end)
    return list
  end

  local ops = {}

  function ops.put(run)
    local g, k, s, at = pick()
    run.values[at] = value()
    probe.heap_expect(run.h, math.random(0, 5), k) -- a hint, also of groups that others own
    assert(probe.heap_put(run.h, run.v, g, k, s, run.values[at]))
  end

  function ops.clear(run)
    local g, k, s, at = pick()
    if math.random(2) == 1 then
      run.values[at] = nil
      probe.heap_clear(run.h, run.v, g, k, s)
    else
      run.maps[at] = nil
      probe.heap_clear(run.h, run.m, g, k, s)
    end
  end

  function ops.get(run)
    local g, k, s, at = pick()
    assert.equal(run.values[at], probe.heap_get(run.h, run.v, g, k, s), fail_text(run))
  end

  function ops.replace(run)
    local g, k, s, at = pick()
    local before, now = run.values[at], value()
    run.values[at] = now
    assert.equal(before, probe.heap_replace(run.h, run.v, g, k, s, now), fail_text(run))
  end

  function ops.map_put(run)
    local g, k, s, at = pick()
    local mk = map_key()
    run.maps[at] = run.maps[at] or {}
    run.maps[at][mk] = value()
    assert(probe.heap_map_put(run.h, run.m, g, k, s, mk, run.maps[at][mk]))
  end

  function ops.map_remove(run)
    local g, k, s, at = pick()
    local mk = map_key()
    if run.maps[at] then
      run.maps[at][mk] = nil
      if not next(run.maps[at]) then run.maps[at] = nil end
    end
    assert(probe.heap_map_remove(run.h, run.m, g, k, s, mk))
  end

  function ops.map_get(run)
    local g, k, s, at = pick()
    local mk = map_key()
    local expected = (run.maps[at] or {})[mk]
    assert.equal(expected, probe.heap_map_get(run.h, run.m, g, k, s, mk), fail_text(run))
  end

  function ops.map_first(run)
    local g, k, s, at = pick()
    local from = math.random(2) == 1 and map_key() or nil
    local first = sorted_entries(run.maps[at], from)[1] or {}
    local mk, v = probe.heap_map_first(run.h, run.m, g, k, s, from)
    assert.equal(first[1], mk, fail_text(run))
    assert.equal(first[2], v, fail_text(run))
  end

  function ops.iterate(run)
    if #run.iterators >= 3 then return end
    local g, k, s, at = pick()
    local from = math.random(3) == 1 and map_key() or nil
    table.insert(run.iterators, {
      it = probe.heap_iterate(run.h, run.m, g, k, s, from),
      expected = sorted_entries(run.maps[at], from), at = 1,
    })
  end

  function ops.next(run)
    local i = math.random(1, math.max(1, #run.iterators))
    local it = run.iterators[i]
    if not it then return end
    local k, v = probe.heap_next(it.it)
    local expected = it.expected[it.at] or {}
    assert.equal(expected[1], k, fail_text(run))
    assert.equal(expected[2], v, fail_text(run))
    it.at = it.at + 1
    if not k or math.random(10) == 1 then
      probe.heap_done_iterating(it.it)
      table.remove(run.iterators, i)
    end
  end

  function ops.freeze(run)
    if #run.cuts >= 4 then return end
    run.id = run.id + 1
    table.insert(run.cuts, { id = run.id, rows = model_rows(run) })
    probe.heap_freeze(run.h, run.id)
  end

  function ops.ready(run)
    local snap, id = probe.heap_ready(run.h)
    if not snap then return end
    local oldest = run.cuts[1]
    assert.equal(oldest.id, id, fail_text(run))
    assert.is_nil(oldest.snap, fail_text(run))
    oldest.snap = snap
  end

  function ops.write(run)
    local cut = run.cuts[1]
    if not cut or not cut.snap or cut.written then return end -- once each: it lets go as it reads
    run.files = run.files + 1
    local handle = assert(probe.heap_write(run.h, cut.snap, dir, run.seed .. "-" .. run.files))
    assert.same(cut.rows, file_rows(handle), fail_text(run))
    cut.written = true
  end

  function ops.done(run)
    local cut = run.cuts[1]
    if not cut or not cut.snap or not (cut.written or math.random(10) == 1) then return end
    table.remove(run.cuts, 1)
    probe.heap_snapshot_done(run.h, cut.snap)
  end

  function ops.abort(run)
    local i = math.random(1, math.max(1, #run.cuts))
    local cut = run.cuts[i]
    if not cut then return end
    probe.heap_abort(run.h, cut.id)
    if not cut.snap then table.remove(run.cuts, i) end
  end

  function ops.step(run)
    probe.heap_step(run.h, math.random(1, 6))
  end

  local weights = {
    put = 4, replace = 3, clear = 2, get = 4, map_put = 8, map_remove = 3, map_get = 4,
    map_first = 2, iterate = 1, next = 3, freeze = 2, ready = 2, write = 1, done = 1, abort = 1, step = 4,
  }
  -- Runs differ in how often cuts begin and deltas fold: with rare ones much is written while the
  -- active delta is the only one, with frequent ones cuts queue up.
  local profiles = {
    {}, { freeze = 1, done = 5, write = 4, ready = 4, step = 1 },
    { freeze = 5, step = 8, abort = 3 },
    { freeze = 1, done = 8, write = 8, ready = 8, step = 0, clear = 8 },
  }

  local function deck_for(seed)
    local profile, names, deck = profiles[seed % #profiles + 1], {}, {}
    for name in pairs(weights) do names[#names + 1] = name end
    table.sort(names) -- a seed means the same run everywhere
    for _, name in ipairs(names) do
      for _ = 1, profile[name] or weights[name] do deck[#deck + 1] = name end
    end
    return deck
  end

  local function check_all(run)
    for k = 0, 9 do
      for _, s in ipairs { "", "n" } do
        local key, at = "k" .. k, "k" .. k .. SEP .. s
        assert.equal(run.values[at], probe.heap_get(run.h, run.v, k % 4, key, s), fail_text(run))
        local it = probe.heap_iterate(run.h, run.m, k % 4, key, s)
        for _, e in ipairs(sorted_entries(run.maps[at])) do
          local mk, v = probe.heap_next(it)
          assert.equal(e[1], mk, fail_text(run))
          assert.equal(e[2], v, fail_text(run))
        end
        assert.is_nil((probe.heap_next(it)), fail_text(run))
        probe.heap_done_iterating(it)
      end
    end
  end

  -- Everything pending ends; then the window holds the model and nothing else.
  local function quiet_end(run)
    while #run.cuts > 0 do
      while probe.heap_step(run.h, 3) do end
      if not run.cuts[1].snap then ops.ready(run) end
      assert.truthy(run.cuts[1].snap, "the oldest cut is never ready, " .. fail_text(run))
      ops.write(run)
      ops.done(run)
    end
    while probe.heap_step(run.h, 3) do end
    check_all(run)
    local n = 0
    for _ in pairs(model_rows(run)) do n = n + 1 end
    assert.equal(n, (probe.heap_usage(run.h)), fail_text(run))
  end

  local function reload(run)
    ops.freeze(run)
    ops.ready(run)
    local cut = run.cuts[1]
    local handle = assert(probe.heap_write(run.h, cut.snap, dir, run.seed .. "-last"))
    probe.heap_snapshot_done(run.h, cut.snap)
    local rows = {}
    for _, range in ipairs { { 0, 1 }, { 2, 3 } } do -- two windows, and back into one
      local half = probe.heap_new("random", range[1], range[2])
      assert(probe.heap_load(half, dir, handle, 0, 3))
      probe.heap_freeze(half, 1)
      local snap = probe.heap_ready(half)
      rows[#rows + 1] = assert(probe.heap_write(half, snap, dir, run.seed .. "-half" .. range[1]))
      probe.heap_snapshot_done(half, snap)
    end
    local whole = probe.heap_new("random", 0, 3)
    for _, part in ipairs(rows) do assert(probe.heap_load(whole, dir, part, 0, 3)) end
    probe.heap_freeze(whole, 1)
    local last = probe.heap_ready(whole)
    local again = assert(probe.heap_write(whole, last, dir, run.seed .. "-again"))
    assert.same(file_rows(handle), file_rows(again), fail_text(run))
  end

  it("agrees with the model", function()
    local seeds = tonumber(os.getenv("SC_SEEDS")) or 60
    for seed = 1, seeds do
      local run, deck = new_run(seed), deck_for(seed)
      for _ = 1, 600 do ops[deck[math.random(#deck)]](run) end
      quiet_end(run)
      reload(run)
    end
  end)
end)
