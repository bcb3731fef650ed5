-- What checkpoints cost: work count with one each second against none, unaligned ones against aligned
-- ones without back-pressure, and the synchronous part at growing state.
--   lua5.4 spec/bench/checkpoints.lua [MB of the largest state] [events]
local support = require "bench.support"

local LARGEST, EVENTS = tonumber(arg[1]) or 100, tonumber(arg[2]) or 5000000
local count = support.programs .. "/count"
local ENTRY = 72 -- bytes of a counter in memory, roughly

local function with_folder(f)
  local folder = os.tmpname()
  os.remove(folder)
  local results = table.pack(pcall(f, folder))
  os.execute("rm -rf '" .. folder .. "'")
  assert(table.unpack(results, 1, results.n))
  return table.unpack(results, 2, results.n)
end

for _, parallelism in ipairs { 1, 2 } do
  local options = ("events=%d keys=1000000 parallelism=%d"):format(EVENTS, parallelism)
  local none, each = with_folder(function(folder)
    return support.least(3, { ("%s %s"):format(count, options),
      ("rm -rf '%s'; %s %s checkpoint=1000 dir='%s'"):format(folder, count, options, folder) }, "made_s")
  end)
  local a, b = support.field(none, "made_s"), support.field(each, "made_s")
  local cpu_a, cpu_b = support.field(none, "made_cpu_s"), support.field(each, "made_cpu_s")
  print(("--- a checkpoint each second, 1 M keys, parallelism %d: %s"):format(parallelism,
    each:match('"checkpoints":(%b{})')))
  support.line("without", a / EVENTS * 1e9, 1, "without")
  support.line("with", b / EVENTS * 1e9, b / a, "without", parallelism == 1 and "1.03 x" or "1.06 x")
  -- What one costs whoever else uses the machine: with a processor for the pool only what slots spend
  -- is missing from a second, with none all of it.
  local n = support.field(each:match('"checkpoints":(%b{})'), "n")
  local slots = support.field(each, "slots_cpu_s") - support.field(none, "slots_cpu_s")
  support.figure("CPU time a checkpoint, in slots", "%8.1f ms", slots / n * 1e3,
    parallelism == 1 and "30 ms" or nil)
  support.figure("CPU time a checkpoint, writing included", "%8.1f ms", (cpu_b - cpu_a) / n * 1e3,
    parallelism == 2 and "120 ms" or nil)
end

-- What may overtake costs nothing where nothing stands in the way: the same events and checkpoints, the
-- two modes in turn. Each run's figures are shown by their median, which one disturbed run does not move.
local function median(texts, field)
  local all = {}
  for i, text in ipairs(texts) do all[i] = support.field(text, field) end
  table.sort(all)
  return all[(#all + 1) // 2]
end

with_folder(function(folder)
  local texts = { {}, {} }
  for _ = 1, 5 do
    for mode = 0, 1 do
      local list = texts[mode + 1]
      list[#list + 1] = support.output(
        ("rm -rf '%s'; %s events=%d keys=10000 parallelism=2 checkpoint=200 dir='%s' unaligned=%d"):format(folder,
          count, EVENTS, folder, mode))
    end
  end
  print "--- unaligned against aligned, a checkpoint each 200 ms, 10,000 keys, parallelism 2, medians of 5"
  for _, field in ipairs { "made_s", "slots_cpu_s", "made_cpu_s" } do
    local aligned, unaligned = median(texts[1], field), median(texts[2], field)
    support.line("aligned, " .. field, aligned / EVENTS * 1e9, 1, "aligned")
    support.line("unaligned, " .. field, unaligned / EVENTS * 1e9, unaligned / aligned, "aligned", "1.01 x")
  end
end)

print("--- the synchronous part, by state")
for _, mb in ipairs { 10, 100, 1000 } do
  if mb <= LARGEST then
    local keys = mb * 1000000 // ENTRY
    local result = with_folder(function(folder)
      return support.output(("%s events=%d keys=%d checkpoint=200 dir='%s'"):format(count, 4 * keys, keys,
        folder))
    end)
    support.figure(("%d MB"):format(mb), "%8.3f ms", support.field(result, "max_sync_ms"), "1 ms")
  end
end
