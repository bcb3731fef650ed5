-- What examples/visits.lua does, as a loop without an engine: parse each line, put its hit into the
-- client's open visits, let visits out half an hour after their last hit, by a watermark one minute
-- behind, and write them. Nothing survives a kill.
local LOG, OUT = arg[1], arg[2]
local GAP = 30 * 60 * 1000
local MONTHS = { Jan = 1, Feb = 2, Mar = 3, Apr = 4, May = 5, Jun = 6, Jul = 7, Aug = 8, Sep = 9,
                 Oct = 10, Nov = 11, Dec = 12 }
local LINE = '^(%S+) %S+ %S+ %[(%d+)/(%a+)/(%d+):(%d+):(%d+):(%d+) ([+-])(%d%d)(%d%d)%] "[^"]*" (%d+) (%S+)'

local function days(year, month, day)
  if month <= 2 then year, month = year - 1, month + 12 end
  return 365 * year + year // 4 - year // 100 + year // 400 + (153 * (month - 3) + 2) // 5 + day - 719469
end

local function parse(line)
  local ip, day, month, year, h, m, s, sign, zh, zm, _, bytes = line:match(LINE)
  if not ip or not MONTHS[month] then return nil end
  local seconds = days(tonumber(year), MONTHS[month], tonumber(day)) * 86400 + h * 3600 + m * 60 + s
  local offset = (zh * 3600 + zm * 60) * (sign == "-" and -1 or 1)
  return { ip = ip, ts = math.tointeger(seconds - offset) * 1000,
           bytes = math.tointeger(tonumber(bytes)) or 0 }
end

local open, out = {}, assert(io.open(OUT, "w"))

local function let_out(ip, watermark)
  local rest = {}
  for _, v in ipairs(open[ip]) do
    if v.last + GAP <= watermark then
      out:write(('{"bytes":%d,"client":"%s","first":%d,"hits":%d,"last":%d}\n'):format(v.bytes, ip, v.first,
        v.hits, v.last))
    else
      rest[#rest + 1] = v
    end
  end
  open[ip] = #rest > 0 and rest or nil
end

local function add(e)
  local rest, visit = {}, { first = e.ts, last = e.ts, hits = 1, bytes = e.bytes }
  for _, v in ipairs(open[e.ip] or {}) do
    if v.first - GAP <= visit.last and visit.first <= v.last + GAP then
      visit = { first = math.min(v.first, visit.first), last = math.max(v.last, visit.last),
                hits = v.hits + visit.hits, bytes = v.bytes + visit.bytes }
    else
      rest[#rest + 1] = v
    end
  end
  rest[#rest + 1] = visit
  open[e.ip] = rest
end

local max, n = math.mininteger, 0
for line in io.lines(LOG) do
  local e = parse(line)
  if e then
    add(e)
    max, n = math.max(max, e.ts), n + 1
    if n % 20000 == 0 then
      for ip in pairs(open) do let_out(ip, max - 60000) end
    end
  end
end
for ip in pairs(open) do let_out(ip, math.maxinteger) end
out:close()
