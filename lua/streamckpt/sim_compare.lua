-- sim_compare: what differs between runs of one job: the rows of its sinks, their order for each key, and
-- the state that is left.
--
-- Runs without failures say first what can be asked for. Where they agree, a run with failures must give
-- the same; where they do not (the order in which records of several splits meet, a clock), the number of
-- rows is compared, if at least that is the same in all of them. All rows are JSON texts.
--
-- Pure: tables in, sentences out.

local sim_compare = {}

local SHOWN = 110

local function shown(row)
  return #row > SHOWN and row:sub(1, SHOWN) .. "..." or row
end

local function rows_text(count)
  return count == 1 and "1 row" or ("%d rows"):format(count)
end

local function rows_are(count)
  return count == 1 and "1 row is" or ("%d rows are"):format(count)
end

local function count_rows(rows)
  local counts = {}
  for _, row in ipairs(rows) do counts[row] = (counts[row] or 0) + 1 end
  return counts
end

local function same_counts(a, b)
  for row, n in pairs(a) do if b[row] ~= n then return false end end
  for row in pairs(b) do if not a[row] then return false end end
  return true
end

-- A table from row to its key, for rows that came under one key only.
local function keys_of_rows(keys)
  local key_of, ambiguous = {}, {}
  for i = 1, #keys, 2 do
    local key, row = keys[i], keys[i + 1]
    if key_of[row] and key_of[row] ~= key then ambiguous[row] = true end
    key_of[row] = key
  end
  for row in pairs(ambiguous) do key_of[row] = nil end
  return key_of
end

-- A table from key to the array of its rows.
local function rows_by_key(rows, key_of)
  local out = {}
  for _, row in ipairs(rows) do
    local key = key_of[row]
    if key then
      out[key] = out[key] or {}
      table.insert(out[key], row)
    end
  end
  return out
end

local function same_list(a, b)
  if not a or not b or #a ~= #b then return false end
  for i, row in ipairs(a) do if row ~= b[i] then return false end end
  return true
end

-- A state's entry as a name that is the same in all runs.
local function entry_name(row)
  return table.concat({ row.uid, row.state, row.key, row.map_key or "" }, "\0")
end

local function states_by_name(states)
  local out = {}
  for _, row in ipairs(states) do out[entry_name(row)] = row end
  return out
end

-- ---- what clean runs promise ----

local function learn_sink(runs, i)
  local first = runs[1].sinks[i]
  local out = { counts = count_rows(first.rows), number = #first.rows, stable = true, counted = true,
                order = {} }
  local key_of = keys_of_rows(first.keys)
  local order = rows_by_key(first.rows, key_of)
  for k = 2, #runs do
    local rows = runs[k].sinks[i].rows
    out.counted = out.counted and #rows == out.number
    out.stable = out.stable and same_counts(out.counts, count_rows(rows))
    local other = rows_by_key(rows, key_of)
    for key, list in pairs(order) do
      if not same_list(list, other[key]) then order[key] = nil end
    end
  end
  if out.stable then out.order, out.key_of = order, key_of end
  return out
end

local function learn_states(runs)
  local first, unstable = states_by_name(runs[1].states), {}
  for k = 2, #runs do
    local other = states_by_name(runs[k].states)
    for name, row in pairs(first) do
      if not other[name] or other[name].value ~= row.value then
        unstable[row.uid .. "\0" .. row.state] = true
      end
    end
    for name, row in pairs(other) do
      if not first[name] then unstable[row.uid .. "\0" .. row.state] = true end
    end
  end
  return first, unstable
end

--- What runs without failures agree on.
-- @param runs an array of results, as core.simulate gives them
-- @param sinks an array of {label, kind}, in the order of the results' sinks
-- @return an object for sim_compare.differences: sinks[i] = {stable: all runs have the same rows, counted:
--   the same number of rows}, unstable_states: a set of "uid\0state"
function sim_compare.learn(runs, sinks)
  local known = { sinks = {} }
  for i in ipairs(sinks) do known.sinks[i] = learn_sink(runs, i) end
  known.states, known.unstable_states = learn_states(runs)
  return known
end

-- ---- what a run has otherwise ----

-- The first in byte order, so that equal runs give equal sentences, and how many.
local function first_of(set)
  local first, n = nil, 0
  for row, count in pairs(set) do
    n = n + count
    if not first or row < first then first = row end
  end
  return first, n
end

local function example(row, n)
  return n == 1 and ": " .. shown(row) or (", %s among them"):format(shown(row))
end

local function missing_and_more(expected, got)
  local missing, twice, strange = {}, {}, {}
  for row, n in pairs(expected) do
    local have = got[row] or 0
    if have < n then missing[row] = n - have end
    if have > n then twice[row] = have - n end
  end
  for row, n in pairs(got) do if not expected[row] then strange[row] = n end end
  return missing, twice, strange
end

local function add(out, kind, label, format, ...)
  out[#out + 1] = { kind = kind .. " " .. label, text = label .. ": " .. format:format(...) }
end

local TWICE = {
  collect = "came twice", file = "were written twice", calls = "were given to it twice",
}
local WHY_TWICE = "; a sink's function is called at once, and again after a restore (write with to_file, or "
  .. "let the second call do no harm and say so: at_least_once)"

local function compare_rows(out, notes, sink, known, rows)
  local missing, twice, strange = missing_and_more(known.counts, count_rows(rows))
  local row, n = first_of(missing)
  if row then add(out, "missing", sink.label, "%s missing%s", rows_are(n), example(row, n)) end
  row, n = first_of(twice)
  if row then
    local list = sink.at_least_once and notes or out
    local why = sink.kind == "calls" and not sink.at_least_once and WHY_TWICE or ""
    add(list, "twice", sink.label, "%s %s%s%s", rows_text(n),
      n == 1 and TWICE[sink.kind]:gsub("were", "was") or TWICE[sink.kind], example(row, n), why)
  end
  row, n = first_of(strange)
  if row then
    add(out, "strange", sink.label, "%s that a run without failures does not have%s", rows_text(n),
      example(row, n))
  end
end

local function compare_number(out, sink, known, rows)
  local fewer, more = #rows < known.number, #rows > known.number
  if fewer or (more and not sink.at_least_once and sink.kind ~= "calls") then
    add(out, "number", sink.label, "%s instead of %d", rows_text(#rows), known.number)
  end
end

local function compare_order(out, sink, known, rows)
  if not sink.ordered or sink.kind == "calls" then return end
  local now, first = rows_by_key(rows, known.key_of), nil
  for key, list in pairs(known.order) do
    if not same_list(list, now[key]) and (not first or key < first) then first = key end
  end
  if not first then return end
  local list, other = known.order[first], now[first] or {}
  local i = 1
  while list[i] == other[i] do i = i + 1 end
  add(out, "order", sink.label, "rows of one key come in another order: number %d is %s, not %s", i,
    shown(tostring(other[i])), shown(list[i]))
end

local function state_text(row)
  return ("key %s%s"):format(row.key, row.map_key and (", entry %s"):format(row.map_key) or "")
end

local function compare_states(out, known, states, labels)
  local now, bad = states_by_name(states), {}
  local function note(row, text)
    local place = row.uid .. "\0" .. row.state
    if known.unstable_states[place] then return end
    local label = labels[row.uid] or row.uid
    local b = bad[place] or { n = 0, label = ("%s, state '%s'"):format(label, row.state) }
    bad[place], b.n = b, b.n + 1
    if not b.text or text < b.text then b.text = text end
  end
  for name, row in pairs(known.states) do
    local other = now[name]
    if not other then
      note(row, ("%s is gone, it was %s"):format(state_text(row), shown(row.value)))
    elseif other.value ~= row.value then
      note(row, ("%s has %s, not %s"):format(state_text(row), shown(other.value), shown(row.value)))
    end
  end
  for name, row in pairs(now) do
    if not known.states[name] then
      note(row, ("%s has %s, and should not be there"):format(state_text(row), shown(row.value)))
    end
  end
  local places = {}
  for place in pairs(bad) do places[#places + 1] = place end
  table.sort(places)
  for _, place in ipairs(places) do
    local b = bad[place]
    add(out, "state", b.label, "%s%s", b.text, b.n > 1 and (" (and %d more)"):format(b.n - 1) or "")
  end
end

--- What a run has otherwise than the clean ones.
-- @param known what sim_compare.learn gave
-- @param run a result of core.simulate, of a job that finished
-- @param sinks an array of {label, kind, at_least_once = a second time is no difference but a note, ordered =
--   the rows of a key have an order}
-- @param labels a table from uid to how an operator is called in sentences
-- @return an array of {kind = what differs where, in words that a smaller run has, too, text}, and one of
--   the same for what is only to be mentioned
function sim_compare.differences(known, run, sinks, labels)
  local out, notes = {}, {}
  for i, sink in ipairs(sinks) do
    local k, rows = known.sinks[i], run.sinks[i].rows
    if k.stable then
      local before = #out
      compare_rows(out, notes, sink, k, rows)
      if #out == before then compare_order(out, sink, k, rows) end
    elseif k.counted then
      compare_number(out, sink, k, rows)
    end
  end
  compare_states(out, known, run.states, labels)
  return out, notes
end

return sim_compare
