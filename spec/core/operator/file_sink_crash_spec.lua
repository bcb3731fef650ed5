-- A file sink under a coordinator in a few lines, whose machine dies at every step it can die at.
local folder = require "support.folder"
local pack = require "support.pack"
local probe = require "streamckpt.probe"

local tmp, storage

local function visible()
  local rows = {}
  for _, name in ipairs(tmp:names()) do
    if name:sub(1, 1) ~= "." then
      for row in tmp:read(name):gmatch("[^\n]+") do rows[#rows + 1] = assert(math.tointeger(row)) end
    end
  end
  return rows
end

local function numbers(first, last)
  local t = {}
  for i = first, last do t[#t + 1] = i end
  return t
end

-- What survives a crash: the last completed checkpoint, its list states, and how far the source was.
local function new_coordinator()
  return { id = 0, completed = 0, position = 0, items = {}, attempt = 0 }
end

local function items_of(parts)
  local bytes = parts:encode()
  local all = bytes and pack.decode(bytes) or {}
  return all.pending and all.pending[2] or {}
end

local function start(c, parallelism)
  c.attempt = c.attempt + 1
  local options = pack.encode { dir = tmp.path }
  local past
  if c.completed > 0 then -- an empty list has no entry: an empty table would be packed as a map
    past = #c.items > 0 and { pack.encode { pending = { 0, c.items } } } or {}
  end
  assert(probe.operator_prepare(storage, "file_sink", options, "job", "out", past))
  local ops, n = {}, #c.items
  for i = 1, parallelism do
    local op = assert(probe.operator_new {
      kind = "file_sink", storage = storage, options = options, checkpointing = true, subtask = i - 1,
      parallelism = parallelism, attempt = c.attempt, restored_id = c.completed })
    -- Contiguous shares, as list state is redistributed.
    local first, last = (i - 1) * n // parallelism + 1, i * n // parallelism
    if last >= first then
      assert(op:restore(pack.encode { pending = { 0, { table.unpack(c.items, first, last) } } }))
    end
    ops[i] = op
  end
  for _, op in ipairs(ops) do assert(op:open()) end
  return ops
end

local function die(ops)
  for _, op in ipairs(ops) do op:destroy() end
end

describe("file_sink under crashes", function()
  setup(function() tmp = folder.new() end)
  teardown(function() tmp:remove() end)

  local ROWS, EACH = 12, 4

  -- Rows from where c stands, a checkpoint after each EACH, all commits. False where the machine died.
  local function run(c)
    local ok, ops = pcall(start, c, 1)
    if not ok then return false end
    local op = ops[1]
    local position = c.position
    local function alive() return not storage:dead() and not op:failed() end
    while op:work() do end
    while alive() and position < ROWS do
      position = position + 1
      if not op:push(pack.encode(position)) then break end
      if position % EACH == 0 then
        c.id = c.id + 1
        local parts = op:snapshot(c.id)
        local acknowledged = parts and parts:run()
        if not acknowledged then break end
        c.completed, c.position, c.items = c.id, position, items_of(parts)
        op:complete(c.id)
        while op:work() do end
      end
    end
    local done = alive() and position == ROWS
    die(ops)
    return done
  end

  for _, power_cut in ipairs { false, true } do
    it("295. file sink: a " .. (power_cut and "power cut" or "killed process") .. " at each step", function()
      local step = 0
      repeat
        step = step + 1
        tmp:clear()
        storage = probe.operator_storage()
        storage:die(step)
        local c = new_coordinator()
        local done = run(c)
        local died = storage:dead()
        assert.equal(not died, done, "step " .. step)
        if died then
          local log = storage:log():match("([^\n]*)\n[^\n]*$") or ""
          if power_cut then storage:power_cut() end
          storage:reset()
          -- Readers see a prefix, and nothing of what is not complete.
          local seen = visible()
          assert.same(numbers(1, #seen), seen, "step " .. step .. " " .. log)
          assert.is_true(#seen <= c.position)
          -- A restored attempt commits exactly what its checkpoint holds.
          local ops = start(c, 1)
          while ops[1]:work() do end
          assert.is_nil(ops[1]:failed())
          assert.same(numbers(1, c.position), visible(), "step " .. step)
          die(ops)
          c.attempt = c.attempt + 1
          assert.is_true(run(c), "step " .. step)
        end
        assert.same(numbers(1, ROWS), visible(), "step " .. step)
        for _, name in ipairs(tmp:names()) do assert.not_equal(".", name:sub(1, 1), name) end
      until not died
      assert.is_true(step > 15, "there were steps to die at")
    end)
  end

  it("295. file sink: a second crash during the recovery from the first", function()
    for first = 1, 40, 3 do
      for second = 1, 12 do
        tmp:clear()
        storage = probe.operator_storage()
        local c = new_coordinator()
        for _, step in ipairs { first, second } do
          storage:die(step)
          if not run(c) then
            storage:power_cut()
            storage:reset()
          end
          storage:die(0)
        end
        local seen = visible()
        assert.same(numbers(1, #seen), seen)
        if c.position < ROWS or #seen < ROWS then assert.is_true(run(c)) end
        assert.same(numbers(1, ROWS), visible(), ("steps %d and %d"):format(first, second))
      end
    end
  end)

  -- Random histories: several subtasks, aborted, skipped and late notices, works in any order,
  -- crashes, restores at another parallelism.
  local function sorted_visible()
    local rows = visible()
    table.sort(rows)
    return rows
  end

  local function trigger(c, ops, world)
    c.id = c.id + 1
    local all = { id = c.id, position = world.position, parts = {} }
    for i, op in ipairs(ops) do
      local parts = op:snapshot(c.id)
      if not parts then return nil end
      all.parts[i] = parts
    end
    world.open[#world.open + 1] = all
    return true
  end

  -- The coordinator finishes one of the open checkpoints, or aborts it.
  local function settle(c, ops, world)
    local at = math.random(#world.open)
    local all = table.remove(world.open, at)
    local items = {}
    local ok = math.random(4) > 1
    for _, parts in ipairs(all.parts) do
      ok = ok and parts:run()
      for _, item in ipairs(ok and items_of(parts) or {}) do items[#items + 1] = item end
    end
    if ok and all.id > c.completed then
      c.completed, c.position, c.items = all.id, all.position, items
      for _, op in ipairs(ops) do
        if math.random(5) > 1 then op:complete(all.id) end -- or the notice is lost
      end
    else
      for _, parts in ipairs(all.parts) do parts:drop() end
      for _, op in ipairs(ops) do op:aborted(all.id) end
    end
  end

  local function random_step(c, ops, world)
    local what = math.random(10)
    if what <= 4 then
      world.position = world.position + 1
      return ops[math.random(#ops)]:push(pack.encode(world.position))
    elseif what <= 6 then
      return trigger(c, ops, world)
    elseif what <= 8 then
      if #world.open > 0 then settle(c, ops, world) end
    elseif what == 9 then
      ops[math.random(#ops)]:work()
    else
      ops[math.random(#ops)]:complete(math.random(0, c.completed))
    end
    return true
  end

  local function random_attempt(c, steps)
    local ok, ops = pcall(start, c, math.random(3))
    if not ok then
      if not storage:dead() then error(ops) end
      return
    end
    local world = { position = c.position, open = {} }
    for _ = 1, steps do
      if not random_step(c, ops, world) or storage:dead() then break end
      for _, op in ipairs(ops) do assert(storage:dead() or not op:failed(), op:failed()) end
    end
    for _, all in ipairs(world.open) do
      for _, parts in ipairs(all.parts) do parts:drop() end
    end
    die(ops)
  end

  it("shows each row of the completed checkpoints once, in random histories", function()
    local seed = os.time()
    math.randomseed(seed)
    for round = 1, 25 do
      local where = ("seed %d, round %d"):format(seed, round)
      tmp:clear()
      storage = probe.operator_storage()
      local c = new_coordinator()
      for _ = 1, 5 do
        storage:die(math.random(3) > 1 and math.random(60) or 0)
        random_attempt(c, math.random(20, 80))
        if math.random(2) == 1 then storage:power_cut() end
        storage:reset()
        local seen = sorted_visible()
        for i, row in ipairs(seen) do
          assert.is_true(row <= c.position, where)
          assert.is_true(i == 1 or row > seen[i - 1], where .. ": twice")
        end
        local ops = start(c, math.random(3))
        for _, op in ipairs(ops) do
          while op:work() do end
          assert.is_nil(op:failed(), where)
        end
        assert.same(numbers(1, c.position), sorted_visible(), where)
        die(ops)
      end
    end
  end)
end)
