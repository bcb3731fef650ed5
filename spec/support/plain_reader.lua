-- A reader of checkpoints in plain Lua, made from the text of ARCHITECTURE.md, "Files, byte by byte",
-- alone: the proof that the text is enough. It shares nothing with the engine.
local msgpack = require "support.msgpack"
local xxh64 = require "support.xxh64"

local reader = {}

local function read_file(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read("a")
end

-- The bytes up to the end of a checksum that stands behind them are what was written.
local function check(bytes, n, what)
  assert(xxh64(bytes:sub(1, n)) == string.unpack("<i8", bytes, n + 1), what .. ": the checksum differs")
end

-- Magic, version, and the msgpack map that follows them; the offset behind its checksum.
local function read_head(bytes, magic, path)
  local version, n = string.unpack("<I4I4", bytes, 9)
  assert(bytes:sub(1, 8) == magic, path .. ": wrong magic")
  assert(version <= 1, path .. ": too new")
  check(bytes, 16 + n, path)
  return msgpack.decode(bytes:sub(17, 16 + n)), 16 + n + 8
end

--- The checkpoint in a folder: the body of its _metadata, list states and enumerators decoded.
function reader.metadata(dir)
  local path = dir .. "/_metadata"
  local bytes = read_file(path)
  local body, length = read_head(bytes, "SCKPMETA", path)
  assert(length == #bytes, path .. ": bytes follow the checksum")
  for _, op in ipairs(body.operators) do
    assert(#op.subtasks == op.parallelism)
    if op.enumerator then op.enumerator = msgpack.decode(op.enumerator) end
    for _, task in ipairs(op.subtasks) do
      for _, handle in ipairs(task.handles or {}) do
        if handle.kind == 2 then handle.lists = msgpack.decode(handle.lists) end
      end
    end
  end
  return body
end

local function read_row(bytes, at)
  local state, flags
  state, flags, at = string.unpack("<I2B", bytes, at)
  local row = { state = state }
  row.key, row.namespace, at = string.unpack("<s4s4", bytes, at)
  if flags & 1 == 1 then row.map_key, at = string.unpack("<s4", bytes, at) end
  row.value, at = string.unpack("<s4", bytes, at)
  return row, at
end

local function read_timer(map_key)
  local time, key, at = string.unpack(">i8s4", map_key)
  return { time = time ~ math.mininteger, key = msgpack.decode(key), namespace = map_key:sub(at) }
end

local function rows_of_group(bytes, offset, group, header, out)
  local found, n, at = string.unpack("<I2I4", bytes, offset + 1)
  assert(found == group, "another group is listed here")
  local last = at + n
  while at < last do
    local row
    row, at = read_row(bytes, at)
    local state = header.states[row.state + 1]
    row.group, row.state, row.kind = group, state.name, state.kind
    if state.kind == 6 then
      row.timer = read_timer(row.map_key)
    else
      row.bytes, row.key, row.value = row.key, msgpack.decode(row.key), msgpack.decode(row.value)
      if row.map_key then row.map_key = msgpack.decode(row.map_key) end
    end
    out[#out + 1] = row
  end
end

--- All rows of keyed state of an operator: {task, group, state, kind, key, map_key, value, timer}.
function reader.rows(dir, op)
  local out = {}
  for number, task in ipairs(op.subtasks) do
    local folder = task.directory and dir .. "/../" .. task.directory or dir
    for _, h in ipairs(task.handles or {}) do
      if h.kind == 1 then
        local path = folder .. "/" .. h.file
        local bytes = read_file(path)
        assert(#bytes == h.length, path .. ": wrong length")
        assert(xxh64(bytes) == h.checksum, path .. ": wrong checksum")
        local header = read_head(bytes, "SCKPKEYS", path)
        assert(header.uid == op.uid and header.compression == "none")
        local from = #out
        for group = h.first, h.last do
          local offset = h.offsets[group - h.first + 1]
          if offset ~= 0 then rows_of_group(bytes, offset, group, header, out) end
        end
        for i = from + 1, #out do out[i].task = number - 1 end
      end
    end
  end
  return out
end

local RECORD, WATERMARK = 0, 1

local function read_record(bytes, at, last)
  local n, kind, flags
  n, kind, flags, at = string.unpack("<I4BB", bytes, at)
  local stop = at + n - 2
  assert(stop <= last, "a record spans blocks")
  local record = { kind = kind }
  if flags & 1 == 1 then record.timestamp, at = string.unpack("<i8", bytes, at) end
  if flags & 2 == 2 then record.group, record.key, at = string.unpack("<I2s4", bytes, at) end
  if kind ~= WATERMARK then record.value = msgpack.decode(bytes:sub(at, stop - 1)) end
  record.key = record.key and msgpack.decode(record.key)
  return record, stop
end

local function read_blocks(bytes, h, out)
  local at, last, skip = h.offset + 1, h.offset + h.bytes, h.skip
  while at <= last do
    local n = string.unpack("<I4", bytes, at)
    assert(xxh64(bytes:sub(at + 12, at + 11 + n)) == string.unpack("<i8", bytes, at + 4), "a block's checksum")
    local from = at + 12 + skip
    at, skip = at + 12 + n, 0
    while from < at do
      local record
      record, from = read_record(bytes, from, at)
      local tagged = record.kind == RECORD and h.first
      if not tagged or record.group >= h.first and record.group <= h.last then out[#out + 1] = record end
    end
  end
  assert(at == last + 1, "the handle does not end with a block")
end

--- Channels with in-flight data: {edge, sender, receiver, origin, generation, first, watermark, idle,
--- records}, the oldest generation first, the records as a restore reads them.
function reader.in_flight(dir, body)
  local channels, handles = {}, {}
  for _, op in ipairs(body.operators) do
    for _, task in ipairs(op.subtasks) do
      for _, h in ipairs(task.handles or {}) do
        if h.kind == 3 then handles[#handles + 1] = h end
      end
    end
  end
  table.sort(handles, function(a, b) return a.side < b.side end)
  local by_name = {}
  for _, h in ipairs(handles) do
    local name = table.concat({ h.edge, h.sender, h.receiver, h.origin, h.generation, h.first or "" }, " ")
    local c = by_name[name]
    if not c then
      c = { edge = body.edges[h.edge + 1], sender = h.sender, receiver = h.receiver, origin = h.origin,
            generation = h.generation, first = h.first, watermark = h.watermark, idle = h.idle or false,
            records = {} }
      by_name[name] = c
      channels[#channels + 1] = c
    end
    if h.file then
      local path = dir .. "/" .. (h.directory and "../" .. h.directory .. "/" or "") .. h.file
      local bytes = read_file(path)
      assert(#bytes == h.length and xxh64(bytes) == h.checksum, path .. ": altered")
      read_head(bytes, "SCKPFLOW", path)
      read_blocks(bytes, h, c.records)
    end
  end
  table.sort(channels, function(a, b) return a.generation < b.generation end)
  return channels
end

--- A list state of an operator, the items of all tasks in their order.
function reader.list(op, name)
  local out = {}
  for _, task in ipairs(op.subtasks) do
    for _, h in ipairs(task.handles or {}) do
      local list = h.kind == 2 and h.lists[name]
      for _, item in ipairs(list and list[2] or {}) do out[#out + 1] = item end
    end
  end
  return out
end

--- The operator of a uid.
function reader.operator(body, uid)
  for _, op in ipairs(body.operators) do
    if op.uid == uid then return op end
  end
end

local function rotl(x, n) return (x << n | x >> (32 - n)) & 0xffffffff end

local function fold(bits) return (bits ~ bits >> 32) & 0xffffffff end

local function hash32(key)
  local kind = math.type(key) or type(key)
  if kind == "boolean" then return key and 1231 or 1237 end
  if kind == "integer" then return fold(key) end
  if kind == "float" then return fold((string.unpack("<i8", string.pack("<d", key)))) end
  local h = kind == "string" and 0 or 1
  for i = 1, #key do
    h = (31 * h + (kind == "string" and key:byte(i) or hash32(key[i]))) & 0xffffffff
  end
  return h
end

--- The key group of a key.
function reader.group(key, max_parallelism)
  local h = rotl(hash32(key) * 0xcc9e2d51 & 0xffffffff, 15) * 0x1b873593 & 0xffffffff
  h = rotl(h, 13) * 5 + 0xe6546b64 & 0xffffffff
  h = h ~ 4
  h = (h ~ h >> 16) * 0x85ebca6b & 0xffffffff
  h = (h ~ h >> 13) * 0xc2b2ae35 & 0xffffffff
  h = h ~ h >> 16
  if h >= 1 << 31 then h = (1 << 32) - h end
  if h == 1 << 31 then h = 0 end
  return h % max_parallelism
end

--- The first and the last group of task i (from 0) of p.
function reader.range(i, p, m)
  return (i * m + p - 1) // p, ((i + 1) * m - 1) // p
end

return reader
