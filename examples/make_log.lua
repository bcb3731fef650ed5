-- make_log: an access log like those of real web servers, for examples and tests.
--
-- Visitors come, look at some pages and leave; some come again. As on a real server a line is
-- written when its request ends, but carries the time when it began: so lines are out of order, by
-- less than a minute. About one line in 3,000 is damaged. The same seed and size make the same
-- file, byte by byte.
--
--   lua5.4 examples/make_log.lua FILE [LINES] [SEED]     (100000 lines, seed 1; FILE - is stdout)

local usage = "usage: lua5.4 examples/make_log.lua FILE [LINES] [SEED]"
local PATH = arg[1]
local LINES, SEED = math.tointeger(tonumber(arg[2] or 100000)), math.tointeger(tonumber(arg[3] or 1))
if not PATH or not LINES or not SEED then
  io.stderr:write(usage, "\n")
  os.exit(2)
end

local START = 1767225600          -- 2026-01-01 00:00:00 UTC
local HITS_A_SECOND = 5
local ONLINE = 100                -- visitors at any time: each clicks about every 20 seconds
local SLOWEST = 55                -- seconds that the slowest request takes

local PAGES = {
  "/", "/index.html", "/about", "/contact", "/blog/", "/blog/2025/streams-of-events",
  "/blog/2025/exactly-once", "/blog/2026/new-year", "/docs/", "/docs/install", "/docs/tutorial/1",
  "/docs/tutorial/2", "/docs/reference?page=3&sort=name", "/products/", "/products/17", "/products/42",
  "/search?q=lua+streams", "/search?q=checkpoint", "/cart", "/login", "/favicon.ico", "/robots.txt",
  "/css/site.css", "/css/print.css", "/js/app.js", "/js/vendor.min.js", "/images/logo.png",
  "/images/header.jpg", "/images/photos/0817.jpg", "/feed.xml", "/api/v1/items?limit=20", "/old/page.php",
}
local AGENTS = {
  "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0",
  "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
  "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 Version/18.1 Safari/605.1.15",
  "Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) Version/18.1 Mobile/15E148 Safari/604.1",
  "Mozilla/5.0 (compatible; ExampleBot/2.1; +http://example.org/bot.html)", "curl/8.5.0", "-",
}
local REFERRERS = { "-", "-", "https://example.org/", "https://www.example.com/search?q=streams" }
local REQUESTS = { "GET", "GET", "GET", "GET", "GET", "GET", "GET", "HEAD", "POST" }
-- What a server's disk makes of a line, or what is no line of it at all.
local DAMAGE = {
  function(line) return line:sub(1, math.random(0, 40)) end,
  function(line) return line:gsub(" %[.-%]", " [-]", 1) end,
  function() return "logrotate: the log was rotated" end,
}

local function pick(list) return list[math.random(#list)] end

local addresses = {}              -- of visitors that have left; they may come again

local function visitor()
  local address
  if #addresses > 0 and math.random() < 0.3 then
    address = pick(addresses)
  else
    address = ("%d.%d.%d.%d"):format(math.random(1, 223), math.random(0, 255), math.random(0, 255),
      math.random(1, 254))
  end
  return { address = address, agent = pick(AGENTS), referrer = pick(REFERRERS),
           left = math.ceil(-8 * math.log(1 - math.random())) }
end

-- The status, and the bytes as the log shows them.
local function answer(page)
  local x = math.random()
  if x < 0.06 then return 304, "-" end
  if x < 0.09 or page:find("^/old") then return 404, 209 end
  if x < 0.11 then return 301, 324 end
  if x < 0.112 then return 500, 612 end
  return 200, math.random(200, 2000) * math.random(1, 60)
end

local stamps = { second = 0 }     -- the text of each second that is still in use

local function stamp(second)
  local text = stamps[second]
  if not text then
    text = os.date("!%d/%b/%Y:%H:%M:%S +0000", second)
    stamps[second], stamps[second - 2 * SLOWEST] = text, nil
  end
  return text
end

math.randomseed(SEED)
local file = PATH == "-" and io.stdout or assert(io.open(PATH, "wb"))
file:setvbuf("full", 1 << 16)

local online = {}
for i = 1, ONLINE do online[i] = visitor() end

local now = START
for _ = 1, LINES do
  now = now - math.log(1 - math.random()) / HITS_A_SECOND
  local i = math.random(ONLINE)
  local who, page = online[i], pick(PAGES)
  local took = math.random() < 0.1 and math.random(0, SLOWEST) or 0
  local status, bytes = answer(page)
  local line = ('%s - - [%s] "%s %s HTTP/1.1" %d %s "%s" "%s"'):format(who.address,
    stamp(math.floor(now) - took), pick(REQUESTS), page, status, bytes, who.referrer, who.agent)
  if math.random(3000) == 1 then line = pick(DAMAGE)(line) end
  assert(file:write(line, "\n"))
  who.left = who.left - 1
  if who.left <= 0 then
    if #addresses < 2000 then addresses[#addresses + 1] = who.address
    else addresses[math.random(#addresses)] = who.address end
    online[i] = visitor()
  end
end
if file ~= io.stdout then assert(file:close()) end
