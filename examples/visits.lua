-- visits: who came to a web server, when, and for how long.
--
-- Reads an access log (combined format) and writes one line of JSON for each visit that has ended:
-- the client, its first and last hit, hits, bytes. A visit ends after 30 minutes without a hit, by
-- the times in the log, which may be out of order by up to a minute. Kill it whenever you like and
-- start it again: each visit is written exactly once.
--
--   lua5.4 examples/visits.lua access.log [output folder] [checkpoint folder] [parallelism]

local sc = require "streamckpt"

local LOG, OUT = arg[1] or error("usage: visits.lua LOG [OUT] [CKPT] [PARALLELISM]", 0), arg[2] or "out"
local GAP = 30 * 60 * 1000
local MONTHS = { Jan = 1, Feb = 2, Mar = 3, Apr = 4, May = 5, Jun = 6, Jul = 7, Aug = 8, Sep = 9,
                 Oct = 10, Nov = 11, Dec = 12 }
local LINE = '^(%S+) %S+ %S+ %[(%d+)/(%a+)/(%d+):(%d+):(%d+):(%d+) ([+-])(%d%d)(%d%d)%] "[^"]*" (%d+) (%S+)'

-- Days from 1970-01-01 to a date of the Gregorian calendar.
local function days(year, month, day)
  if month <= 2 then year, month = year - 1, month + 12 end
  return 365 * year + year // 4 - year // 100 + year // 400 + (153 * (month - 3) + 2) // 5 + day - 719469
end

local function parse(line)
  local ip, day, month, year, h, m, s, sign, zh, zm, _, bytes = line:match(LINE)
  if not ip or not MONTHS[month] then return nil end
  local seconds = days(tonumber(year), MONTHS[month], tonumber(day)) * 86400 + h * 3600 + m * 60 + s
  local offset = (zh * 3600 + zm * 60) * (sign == "-" and -1 or 1)
  return { ip = ip, ts = math.tointeger(seconds - offset) * 1000, bytes = math.tointeger(tonumber(bytes)) or 0 }
end

local env = sc.env {
  name = "visits", parallelism = tonumber(arg[4]) or 2,
  checkpoint = { interval = "500ms", dir = arg[3] or "ckpt", retain = 2 },
}

local hits = env:from_file(LOG, { position = true }):uid("log")
  :process { uid = "parse",
    on_element = function(ctx, line)
      local hit = parse(line.text)
      if hit then ctx:emit(hit) else ctx:side("bad", line) end
    end }

hits:side("bad"):to_file(OUT .. "/bad", { format = "json" }):uid("bad")

hits:watermarks { timestamp = "ts", out_of_orderness = "1min" }
  :key_by("ip")
  :process { uid = "visits",
    state = { open = sc.value() },                 -- the visits of this client that may still grow
    on_element = function(ctx, e)
      local rest, visit = {}, { first = e.ts, last = e.ts, hits = 1, bytes = e.bytes }
      for _, v in ipairs(ctx.state.open:get() or {}) do
        if v.first - GAP <= visit.last and visit.first <= v.last + GAP then
          visit = { first = math.min(v.first, visit.first), last = math.max(v.last, visit.last),
                    hits = v.hits + visit.hits, bytes = v.bytes + visit.bytes }
        else
          rest[#rest + 1] = v
        end
      end
      rest[#rest + 1] = visit
      ctx.state.open:set(rest)
      ctx.timers:event_time(visit.last + GAP)
    end,
    on_timer = function(ctx, ts)
      local rest = {}
      for _, v in ipairs(ctx.state.open:get() or {}) do
        if v.last + GAP <= ts then
          ctx:emit { client = ctx.key, first = v.first, last = v.last, hits = v.hits, bytes = v.bytes }
        else
          rest[#rest + 1] = v
        end
      end
      if #rest > 0 then ctx.state.open:set(rest) else ctx.state.open:clear() end
    end }
  :to_file(OUT, { format = "json" }):uid("out")

local result = env:execute { from = "latest" }

local bad = result:metrics("bad").numRecordsIn
print(("done: %s; %d lines did not parse in this run (see %s/bad)"):format(result:status(), bad, OUT))
