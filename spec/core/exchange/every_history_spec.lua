local crossing = require "support.crossing"

-- Every history of senders, a receiver and timers up to a length: what each sender sent before its
-- own start must be, once and in order, either processed before the receiver's start or kept; that is
-- all there is to a consistent cut (reference 27.4, 1 and 2). The oracle knows only what was pushed.
--
-- An action: "p0" sender 0 pushes a buffer of two records, "b0" it starts, "o" the senders' timers, "k" the
-- receiver's, "r" the receiver takes one event, "u" it takes barriers at heads, "a" an abort, "e0"
-- sender 0 leaves.
local AT = 100

local function play(n, history, length, mode, rigid)
  local x = crossing.new(n, { rigid = rigid })
  local pushed, mark, left, aborted, late = {}, {}, {}, false, false
  for c = 0, n - 1 do pushed[c] = {} end
  local function start(c)
    if mark[c] then return end
    mark[c] = #pushed[c]
    if not left[c] then x:barrier(c, 1, mode == "timeout" and AT or mode, late) end
  end
  for i = 1, length do
    local what, c = history[i][1], history[i][2]
    if what == "p" then
      for _ = 1, 2 do
        local record = c .. "." .. #pushed[c] + 1
        pushed[c][#pushed[c] + 1] = record
        x:fill(c, record)
      end
      x:flush(c)
    elseif what == "b" then start(c)
    elseif what == "r" then x:next()
    elseif what == "u" then x:urgent()
    elseif what == "o" then
      late = true
      for s = 0, n - 1 do if mark[s] and not left[s] then x:overtake(s, 1) end end
    elseif what == "k" then x:clock(AT)
    elseif what == "e" then
      left[c] = true
      mark[c] = mark[c] or #pushed[c] -- its close stands for the barrier
      x:leave(c)
    else
      aborted = true
      x:abort(1)
    end
  end
  for c = 0, n - 1 do start(c) end
  x:poll()
  return x, pushed, mark, aborted
end

local function is_rigid(rigid, c)
  for _, r in ipairs(rigid or {}) do if r == c then return true end end
  return false
end

local function without_nothing(list) return table.concat(list, " ") end

-- A text where something is wrong.
local function judge(x, n, pushed, mark, aborted, rigid)
  local of = {}
  for c = 0, n - 1 do of[c] = { processed = {}, before = {}, kept = {} } end
  local function sort(into, list)
    for _, r in ipairs(list) do
      local l = of[tonumber(r:match "^%d+")][into]
      l[#l + 1] = r
    end
  end
  sort("processed", x.seen)
  for c = 0, n - 1 do
    if without_nothing(of[c].processed) ~= without_nothing(pushed[c]) then
      return "records of " .. c .. " lost, doubled or out of order: " .. without_nothing(x.seen)
    end
  end
  if x.starts[1] == nil then
    local owed = false
    for c = 0, n - 1 do owed = owed or x.sent[c][1] ~= nil end
    if owed and not aborted then return "never started" end
    return x:told() ~= "" and x:told() ~= "-1" and "log " .. x:told() or nil
  end
  local told = x:told()
  if not told:match "^1!?$" and not (aborted and told:match "^1!? %-1$") then return "log " .. told end
  if aborted then return end
  if not x:complete(1) then return "not complete" end
  local before = {}
  for r in x.starts[1]:gmatch "%S+" do before[#before + 1] = r end
  sort("before", before)
  sort("kept", select(2, x:kept(1)))
  for c = 0, n - 1 do
    local cut, sent = {}, {}
    for _, r in ipairs(of[c].before) do cut[#cut + 1] = r end
    for _, r in ipairs(of[c].kept) do cut[#cut + 1] = r end
    for i = 1, mark[c] do sent[i] = pushed[c][i] end
    if without_nothing(cut) ~= without_nothing(sent) then
      return ("channel %d: the cut holds [%s] + [%s], the sender had sent [%s]"):format(c,
        without_nothing(of[c].before), without_nothing(of[c].kept), without_nothing(sent))
    end
    if is_rigid(rigid, c) and #of[c].kept > 0 then return "kept of a rigid channel" end
  end
  if not x.overtakes[1] and #select(2, x:kept(1)) > 0 then return "kept, though aligned" end
end

local function tell(history, length)
  local words = {}
  for i = 1, length do words[i] = history[i][1] .. (history[i][2] or "") end
  return table.concat(words, " ")
end

-- All histories over an alphabet; an action with a third field comes so often at most.
local function every(n, alphabet, length, modes, rigids)
  local history, used, count = {}, {}, 0
  local function leaf()
    for _, mode in ipairs(modes) do
      for _, rigid in ipairs(rigids) do
        count = count + 1
        local x, pushed, mark, aborted = play(n, history, length, mode, rigid)
        local fault = judge(x, n, pushed, mark, aborted, rigid)
        local outstanding = x:close()
        if outstanding ~= 0 then fault = fault or outstanding .. " buffers are missing" end
        if fault then
          error(("%s, rigid %s: %s\n%s"):format(mode, table.concat(rigid, ","),
            tell(history, length), fault), 0)
        end
      end
    end
  end
  local function extend(depth)
    if depth > length then return leaf() end
    for _, action in ipairs(alphabet) do
      local c = action[2]
      local over = action[1] == "p" and used["e" .. (c or "")] or action[1] == "b" and used["e" .. c]
      local name = action[1] .. (c or "")
      if not over and (used[name] or 0) < (action[3] or length) then
        used[name] = (used[name] or 0) + 1
        history[depth] = action
        extend(depth + 1)
        used[name] = used[name] > 1 and used[name] - 1 or nil
      end
    end
  end
  extend(1)
  return count
end

describe("every history", function()
  local r, u = { "r" }, { "u", nil, 1 }

  it("of two channels and an overtaking or aligned checkpoint is a consistent cut", function()
    local count = every(2, { { "p", 0, 2 }, { "p", 1, 2 }, { "b", 0, 1 }, { "b", 1, 1 }, r, u }, 6,
      { "now", "aligned" }, { {}, { 0 } })
    assert.is_true(count > 10000, count)
  end)

  it("of two channels and a timeout that comes at any moment", function()
    local count = every(2, { { "p", 0, 2 }, { "p", 1, 2 }, { "b", 0, 1 }, { "b", 1, 1 }, r,
      { "o", nil, 1 }, { "k", nil, 1 } }, 6, { "timeout" }, { {}, { 1 } })
    assert.is_true(count > 10000, count)
  end)

  it("with an abort or a sender that leaves at any moment", function()
    local count = every(2, { { "p", 0, 1 }, { "p", 1, 2 }, { "b", 0, 1 }, { "b", 1, 1 }, r,
      { "a", nil, 1 }, { "e", 1, 1 } }, 5, { "now", "aligned", "timeout" }, { {}, { 0 } })
    assert.is_true(count > 10000, count)
  end)

  it("of three channels, one of which cannot be captured", function()
    local count = every(3, { { "p", 0, 1 }, { "p", 1, 1 }, { "p", 2, 1 }, { "b", 0, 1 },
      { "b", 1, 1 }, { "b", 2, 1 }, r }, 5, { "now", "timeout" }, { {}, { 0 } })
    assert.is_true(count > 10000, count)
  end)
end)
