-- per_minute: the hits of each minute of an access log.
--
-- One line of JSON a minute that has any, written when the minute is over by the times in the log
-- (which may be out of order by up to a minute), each exactly once, however often it is killed.
--
--   lua5.4 examples/per_minute.lua LOG [OUT] [CHECKPOINTS] [PARALLELISM]

local sc = require "streamckpt"

local LOG = arg[1]
if not LOG then
  io.stderr:write("usage: lua5.4 examples/per_minute.lua LOG [OUT] [CHECKPOINTS] [PARALLELISM]\n")
  os.exit(2)
end
local MINUTE = 60 * 1000
local MONTHS = { Jan = 1, Feb = 2, Mar = 3, Apr = 4, May = 5, Jun = 6, Jul = 7, Aug = 8, Sep = 9,
                 Oct = 10, Nov = 11, Dec = 12 }
local TIME = "^%S+ %S+ %S+ %[(%d+)/(%a+)/(%d+):(%d+):(%d+):(%d+) ([+-])(%d%d)(%d%d)%]"

-- Days from 1970-01-01 to a date.
local function days(year, month, day)
  if month <= 2 then year, month = year - 1, month + 12 end
  return 365 * year + year // 4 - year // 100 + year // 400 + (153 * (month - 3) + 2) // 5
    + day - 719469
end

local function time(line)
  local day, month, year, h, m, s, sign, zone_h, zone_m = line:match(TIME)
  if not day or not MONTHS[month] then return nil end
  local seconds = days(tonumber(year), MONTHS[month], tonumber(day)) * 86400 + h * 3600 + m * 60 + s
  return (seconds - (zone_h * 3600 + zone_m * 60) * (sign == "-" and -1 or 1)) * 1000
end

local env = sc.env {
  name = "per-minute", parallelism = tonumber(arg[4] or 2),
  checkpoint = { interval = "500ms", dir = arg[3] or "ckpt" },
}

env:from_file(LOG):uid("log")
  :flat_map(function(line, ctx)
    local ts = time(line)
    if ts then ctx:emit { ts = ts, minute = ts // MINUTE * MINUTE } end
  end):uid("parse")
  :watermarks { timestamp = "ts", out_of_orderness = "1min", uid = "time" }
  :key_by("minute")
  :process { uid = "count",
    state = { hits = sc.value() },
    on_element = function(ctx)
      ctx.state.hits:set((ctx.state.hits:get() or 0) + 1)
      ctx.timers:event_time(ctx.key + MINUTE - 1)        -- set again, it is still one timer
    end,
    on_timer = function(ctx)
      ctx:emit { minute = os.date("!%Y-%m-%d %H:%M", ctx.key // 1000), hits = ctx.state.hits:get() }
      ctx.state.hits:clear()
    end }
  :to_file(arg[2] or "out"):uid("out")

print(env:execute { from = "latest" }:status())
