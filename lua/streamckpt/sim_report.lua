-- sim_report: what testing.simulate returns: a plain table that prints as a screen of text.

local misuse = require "streamckpt.misuse"

local sim_report = {}

local STORY_LINES = 30

local Report = { __name = "streamckpt.simulation", __stays = "a report, which stays in the script" }

local function number(n, word, plural)
  return n == 1 and "1 " .. word or ("%d %s"):format(n, plural or word .. "s")
end

local function heading(self)
  local first, last = self.seeds[1], self.seeds[2]
  if self.runs == 0 then return "not simulated: the job does not get through a run without failures" end
  local which = first == last and ("seed %d"):format(first) or ("seeds %d to %d"):format(first, last)
  local what = ("simulated %s (%s)"):format(number(self.runs, "run"), which)
  if self.ok then return what .. ": no difference" end
  return ("%s: seed %d differs from a run without failures"):format(what, self.failed_seed)
end

local function what_happened(self)
  return ("  %s, %s, %s, %s; %s (%d at another parallelism), %s"):format(
    number(self.crashes, "crash", "crashes"), number(self.task_failures, "failed task"),
    number(self.storage_failures, "failed file operation"),
    number(self.cancels, "cancel"), number(self.restores, "restore"), self.rescales,
    number(self.checkpoints, "checkpoint"))
end

local function compared(self)
  local words = {}
  for _, sink in ipairs(self.compared.sinks) do
    words[#words + 1] = ("%s (%s%s)"):format(sink.label, number(sink.rows, "row"),
      sink.stable and (sink.keys > 0 and ", in order" or "") or sink.counted and ", only their number"
      or ", not compared")
  end
  for _, state in ipairs(self.compared.states) do words[#words + 1] = "the state of " .. state end
  return "  compared: " .. (#words > 0 and table.concat(words, "; ") or "nothing")
end

-- What goes well goes without saying: checkpoints that completed one after another become one line.
local function told(story)
  local out, first, last, waiting = {}, nil, nil, nil
  local function flush()
    if first then
      out[#out + 1] = last.id == first.id and last.line
        or ("%s checkpoints %s to %s completed"):format(last.line:match("^ *[%d.]+ "), first.id, last.id)
    end
    if waiting then out[#out + 1] = waiting end
    first, last, waiting = nil, nil, nil
  end
  for line in story:gmatch("[^\n]+") do
    local id = line:match("^ *[%d.]+  %[#%d+ chk (%d+)%]: completed in %d+ ms$")
    if id and (not waiting or waiting:find("chk " .. id .. "]", 1, true)) then
      last, waiting = { id = id, line = line }, nil
      first = first or last
    elseif not waiting and line:find("^ *[%d.]+  %[#%d+ chk %d+%]: triggered %(") then
      waiting = line
    else
      flush()
      out[#out + 1] = line
    end
  end
  flush()
  return out
end

local function story_lines(self, lines)
  local all = told(self.story)
  lines[#lines + 1] = #all > STORY_LINES
    and ("story (ms, what happened; the last %d of %d lines):"):format(STORY_LINES, #all)
    or "story (ms, what happened):"
  for i = math.max(1, #all - STORY_LINES + 1), #all do
    lines[#lines + 1] = #all[i] > 140 and all[i]:sub(1, 137) .. "..." or all[i]
  end
end

function Report:__tostring()
  local lines = { heading(self) }
  for _, text in ipairs(self.differences) do lines[#lines + 1] = "  - " .. text end
  if self.runs > 0 then
    lines[#lines + 1] = what_happened(self)
    lines[#lines + 1] = compared(self)
  end
  for _, text in ipairs(self.notes) do lines[#lines + 1] = "  note: " .. text end
  if not self.ok and #self.events > 0 then
    lines[#lines + 1] = self.shrunk and "what it takes:" or "what went wrong on purpose:"
    for _, text in ipairs(self.events) do lines[#lines + 1] = "  - " .. text end
  end
  if not self.ok and self.story ~= "" then story_lines(self, lines) end
  return table.concat(lines, "\n")
end

function Report.__index(_, name)
  if type(name) ~= "string" or name:sub(1, 1) == "_" or name == "failed_seed" then return nil end
  misuse.raise("a report of a simulation has no '%s'", name)
end

--- A new report, of nothing yet.
-- @param seeds {first, last}
function sim_report.new(seeds)
  return setmetatable({
    ok = true, seeds = seeds, runs = 0, crashes = 0, task_failures = 0, storage_failures = 0, cancels = 0,
    restores = 0, rescales = 0, checkpoints = 0, differences = {}, notes = {}, events = {}, story = "",
    shrunk = false, compared = { sinks = {}, states = {} },
  }, Report)
end

return sim_report
