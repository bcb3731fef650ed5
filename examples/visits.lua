-- visits: who came to a web server, when, and for how long.
--
-- Reads an access log (combined format) and writes one line of JSON for each visit: the client, its
-- first and last hit (ms since 1970), hits, bytes. A visit ends after 30 minutes without a hit, by
-- the times in the log, which may be out of order by up to a minute. Kill it whenever you like and
-- start it again, with more tasks or fewer: each visit is written exactly once. Lines that are no
-- hits go to OUT/bad, with their file and number.

local sc = require "streamckpt"
local uv = require "luv"

local LOG, OUT, CHECKPOINTS = arg[1], arg[2] or "out", arg[3] or "ckpt"
local PARALLELISM, INTERVAL = tonumber(arg[4] or 2), arg[5] or "500ms"
if not LOG or not PARALLELISM then
  io.stderr:write([[
usage: lua5.4 examples/visits.lua LOG [OUT] [CHECKPOINTS] [PARALLELISM] [INTERVAL]
  LOG          an access log; lua5.4 examples/make_log.lua access.log makes one
  OUT          folder for the visits (out)
  CHECKPOINTS  folder for the checkpoints (ckpt)
  PARALLELISM  how many tasks share the work (2)
  INTERVAL     time between two checkpoints (500ms)
]])
  os.exit(2)
end

local GAP = 30 * 60 * 1000
local MONTHS = { Jan = 1, Feb = 2, Mar = 3, Apr = 4, May = 5, Jun = 6, Jul = 7, Aug = 8, Sep = 9,
                 Oct = 10, Nov = 11, Dec = 12 }
local LINE = '^(%S+) %S+ %S+ %[(%d+)/(%a+)/(%d+):(%d+):(%d+):(%d+) ([+-])(%d%d)(%d%d)%] '
  .. '"[^"]*" %d+ (%S+)'

-- Days from 1970-01-01 to a date.
local function days(year, month, day)
  if month <= 2 then year, month = year - 1, month + 12 end
  return 365 * year + year // 4 - year // 100 + year // 400 + (153 * (month - 3) + 2) // 5
    + day - 719469
end

local function parse(line)
  local ip, day, month, year, h, m, s, sign, zone_h, zone_m, bytes = line:match(LINE)
  if not ip or not MONTHS[month] then return nil end
  local seconds = days(tonumber(year), MONTHS[month], tonumber(day)) * 86400 + h * 3600 + m * 60 + s
  local zone = (zone_h * 3600 + zone_m * 60) * (sign == "-" and -1 or 1)
  return { ip = ip, ts = (seconds - zone) * 1000, bytes = math.tointeger(tonumber(bytes)) or 0 }
end

local env = sc.env {
  name = "visits", parallelism = PARALLELISM,
  checkpoint = { interval = INTERVAL, dir = CHECKPOINTS, retain = 2 },
}

local hits = env:from_file(LOG, { position = true }):uid("log")
  :process { uid = "parse",
    on_element = function(ctx, line)
      local hit = parse(line.text)
      if hit then ctx:emit(hit) else ctx:side("bad", line) end
    end }

hits:side("bad"):to_file(OUT .. "/bad"):uid("bad")

hits:watermarks { timestamp = "ts", out_of_orderness = "1min", uid = "time" }
  :key_by("ip")
  :process { uid = "visits",
    state = { open = sc.value() },                 -- the visits of this client that may still grow
    on_element = function(ctx, hit)
      local visit, others = { first = hit.ts, last = hit.ts, hits = 1, bytes = hit.bytes }, {}
      for _, v in ipairs(ctx.state.open:get() or {}) do
        if v.first - GAP <= visit.last and visit.first <= v.last + GAP then
          visit = { first = math.min(v.first, visit.first), last = math.max(v.last, visit.last),
                    hits = v.hits + visit.hits, bytes = v.bytes + visit.bytes }
        else
          others[#others + 1] = v
        end
      end
      others[#others + 1] = visit
      ctx.state.open:set(others)
      ctx.timers:event_time(visit.last + GAP)
    end,
    on_timer = function(ctx, now)
      local open = {}
      for _, v in ipairs(ctx.state.open:get() or {}) do
        if v.last + GAP <= now then
          v.client = ctx.key
          ctx:emit(v)
        else
          open[#open + 1] = v
        end
      end
      if #open > 0 then ctx.state.open:set(open) else ctx.state.open:clear() end
    end }
  :to_file(OUT):uid("out")

env:execute { from = "latest" }                    -- from the newest checkpoint, if there is one

-- The committed lines of a folder, over all runs. What is not committed has a hidden name.
local function lines(folder)
  return coroutine.wrap(function()
    for name, kind in uv.fs_scandir_next, assert(uv.fs_scandir(folder)) do
      if kind == "file" and name:find("%.json$") and not name:find("^%.") then
        for line in io.lines(folder .. "/" .. name) do coroutine.yield(line) end
      end
    end
  end)
end

local visits, hit_count, clients, client_count, bad = 0, 0, {}, 0, 0
for line in lines(OUT) do
  local client = line:match('"client":"([^"]*)"')
  if not clients[client] then clients[client], client_count = true, client_count + 1 end
  visits, hit_count = visits + 1, hit_count + tonumber(line:match('"hits":(%d+)'))
end
for _ in lines(OUT .. "/bad") do bad = bad + 1 end
print(("%d visits by %d clients, %d hits, in %s; %d lines did not parse, see %s/bad")
  :format(visits, client_count, hit_count, OUT, bad, OUT))
