local probe = require "streamckpt.probe"
local tmp = require "support.tmp_folder"
local xxh64 = require "support.xxh64"

local MIN = math.mininteger

local function keyed(file, first, last)
  local offsets = {}
  for i = 1, last - first + 1 do offsets[i] = i % 3 == 0 and 0 or i * 1000 end
  return { kind = 1, file = file, length = 1 << 33, checksum = -2, first = first, last = last,
           offsets = offsets, states = { "n", "_timers/event" } }
end

-- In-flight data of one side of one channel, kept again from an older checkpoint's file.
local function inflight(edge)
  return { kind = 3, edge = edge, sender = 3, receiver = 1, origin = 0, generation = 2, side = 1,
           watermark = -9, idle = true, first = 4, last = 5, directory = "chk-40",
           file = "r0-g0-a7.inflight", length = 5000, checksum = -3, offset = 60, bytes = 4000,
           skip = 17 }
end

-- A channel of which nothing but its watermark is kept.
local function watermark_only(edge)
  return { kind = 3, edge = edge, sender = 0, receiver = 1, origin = 1, generation = 1, side = 0,
           watermark = 12, idle = false }
end

local function example(id)
  return {
    id = id or 42, time = 1764472545123, job_id = "visits", job_name = "Visits", attempt = 7,
    finished = false, savepoint = true,
    operators = {
      { uid = "src", name = "source", parallelism = 1, max_parallelism = 128,
        enumerator = "\x92\1\2",
        subtasks = {
          { ["end"] = 2, watermark = math.maxinteger, forwarded = math.maxinteger, idle = false,
            directory = "chk-3", handles = { { kind = 2, lists = "\x81\xa1a\x92\0\x91\1" } } },
        } },
      { uid = "op", name = "op", parallelism = 2, max_parallelism = 8,
        subtasks = {
          { ["end"] = 0, watermark = -5, forwarded = -6, idle = true,
            handles = { keyed("a", 0, 3) } },
          { ["end"] = 1, watermark = MIN, forwarded = MIN, idle = false,
            handles = { keyed("b/c", 4, 7), { kind = 2, lists = "" }, inflight(0),
                        watermark_only(1) } },
        } },
    },
    edges = {
      { from = "src", output = "", to = "op", partitioner = "hash", port = 0, ordinal = 0,
        from_parallelism = 1, to_parallelism = 2 },
      { from = "src", output = "late", to = "op", partitioner = "forward", port = 1, ordinal = 3,
        from_parallelism = 1, to_parallelism = 2 },
    },
  }
end

-- A file around a body, as the banner of metadata.h says.
local function wrap(body, version, length)
  local bytes = "SCKPMETA" .. string.pack("<I4I4", version or 1, length or #body) .. body
  return bytes .. string.pack("<i8", xxh64(bytes))
end

describe("metadata", function()
  local dir, s
  before_each(function() dir = tmp.make(); s = probe.storage_new(false) end)
  after_each(tmp.remove)

  it("is given back field by field", function()
    assert.same(example(), probe.metadata_decode(probe.metadata_encode(example())))
  end)

  it("is wrapped as its header says", function()
    local bytes = probe.metadata_encode(example())
    local magic, version, len = string.unpack("<c8I4I4", bytes)
    assert.equal("SCKPMETA", magic)
    assert.equal(1, version)
    assert.equal(16 + len + 8, #bytes)
    assert.equal(xxh64(bytes:sub(1, -9)), (string.unpack("<i8", bytes, #bytes - 7)))
    assert.equal(bytes, wrap(bytes:sub(17, -9)))
  end)

  it("ignores unknown fields and needs only the marked ones", function()
    local body = "\x84\xa2id\5\xa6job_id\xa1j\xa3new\x92\1\2\xa9operators\x90"
    assert.same({ id = 5, job_id = "j", job_name = "", time = 0, attempt = 0, finished = false,
                  savepoint = false, operators = {}, edges = {} },
                probe.metadata_decode(wrap(body)))
  end)

  it("refuses a version that is too new with both numbers", function()
    local m, message, code = probe.metadata_decode(wrap("\x80", 3))
    assert.is_nil(m)
    assert.equal("EVERSION", code)
    assert.matches("version 3", message, 1, true)
    assert.matches("up to 1", message, 1, true)
  end)

  it("refuses bodies of a wrong shape, whatever the checksum says", function()
    local function field(name, value) return string.char(0xa0 + #name) .. name .. value end
    local id, job = field("id", "\5"), field("job_id", "\xa1j")
    local function operator(fields)
      return "\x83" .. id .. job .. field("operators", "\x91" .. fields)
    end
    local ok_op = "\x84" .. field("uid", "\xa1o") .. field("parallelism", "\1") ..
      field("max_parallelism", "\8")
    local function subtask(fields)
      return operator(ok_op .. field("subtasks", "\x91" .. fields))
    end
    local function handle(fields) return subtask("\x81" .. field("handles", "\x91" .. fields)) end
    local function keyed_handle(changes)
      local at = { kind = "\1", file = "\xa1f", length = "\9", checksum = "\9", first = "\0",
                   last = "\1", offsets = "\x92\0\0", states = "\x91\xa1n" }
      for k, v in pairs(changes) do at[k] = v end
      local out, n = "", 0
      for k, v in pairs(at) do if v ~= "" then out = out .. field(k, v); n = n + 1 end end
      return handle(string.char(0x80 + n) .. out)
    end
    assert(probe.metadata_decode(wrap(keyed_handle {})))
    local function inflight_handle(changes)
      local at = { kind = "\3", edge = "\0", sender = "\0", receiver = "\0", origin = "\0",
                   generation = "\1", side = "\1", file = "\xa1f", length = "\9",
                   checksum = "\9", offset = "\3", bytes = "\6", first = "\1", last = "\1" }
      for k, v in pairs(changes) do at[k] = v end
      local out, n = "", 0
      for k, v in pairs(at) do if v ~= "" then out = out .. field(k, v); n = n + 1 end end
      local edge = "\x82" .. field("from", "\xa1a") .. field("to", "\xa1b")
      local body = handle("\xde" .. string.pack(">I2", n) .. out)
      return "\x84" .. body:sub(2) .. field("edges", "\x91" .. edge)
    end
    assert(probe.metadata_decode(wrap(inflight_handle {})))
    local bad = {
      "", "\x80", "\xc1", "\x90", "\x80\x80", "\x83" .. id, "\x82" .. id .. job,
      "\x82" .. job .. field("operators", "\x90"), "\x82" .. id .. field("operators", "\x90"),
      "\x83" .. field("id", "\xff") .. job .. field("operators", "\x90"),
      "\x83" .. id .. job .. field("operators", "\5"),
      "\x84" .. id .. job .. field("operators", "\x90") .. field("edges", "\x91\x80"),
      operator "\5", operator "\x80",
      operator("\x84" .. field("uid", "\xa1o") .. field("parallelism", "\0") ..
               field("max_parallelism", "\8") .. field("subtasks", "\x90")),
      operator("\x84" .. field("uid", "\xa1o") .. field("parallelism", "\2") ..
               field("max_parallelism", "\1") .. field("subtasks", "\x92\x80\x80")),
      operator(ok_op .. field("subtasks", "\x92\x80\x80")), -- two where one is announced
      subtask("\x81" .. field("end", "\3")), subtask("\x81" .. field("handles", "\1")),
      subtask("\x81" .. field("directory", "\xa2..")),
      handle "\x80", handle("\x81" .. field("kind", "\3")), handle("\x81" .. field("kind", "\2")),
      keyed_handle { file = "" }, keyed_handle { file = "\xa0" },
      keyed_handle { file = "\xa4/etc" }, keyed_handle { file = "\xa5../../" },
      keyed_handle { file = "\xa4a/.." }, keyed_handle { offsets = "\x91\0" },
      keyed_handle { offsets = "\x92\0\xff" }, keyed_handle { last = "" },
      keyed_handle { first = "\2" }, keyed_handle { length = "\xff" },
      keyed_handle { states = "\1" },
      keyed_handle { states = "\x91\1" }, keyed_handle { checksum = "" },
      keyed_handle { last = "\xcd\x80\0" },
      inflight_handle { edge = "\1" }, inflight_handle { edge = "" },
      inflight_handle { sender = "" }, inflight_handle { receiver = "\xff" },
      inflight_handle { origin = "" }, inflight_handle { generation = "\xff" },
      inflight_handle { side = "\2" }, inflight_handle { last = "" }, inflight_handle { last = "\0" },
      inflight_handle { file = "\xa4/etc" }, inflight_handle { directory = "\xa2.." },
      inflight_handle { bytes = "\0" }, inflight_handle { bytes = "\7" },
      inflight_handle { offset = "\xff" }, inflight_handle { offset = "\xcf" .. ("\xff"):rep(8) },
      inflight_handle { length = "" }, inflight_handle { checksum = "" },
      inflight_handle { skip = "\xff" },
      inflight_handle { file = "", directory = "\xa5chk-1" },
    }
    for i, body in ipairs(bad) do
      local m, message, code = probe.metadata_decode(wrap(body))
      assert.is_nil(m, "body " .. i)
      assert.equal("ECORRUPT", code, "body " .. i)
      assert.is_true(#message > 10)
    end
    assert.equal("ECORRUPT", select(3, probe.metadata_decode(wrap("\x80", 1, 2))))
  end)

  it("never crashes on any change of a byte with a mended checksum", function()
    local seed = os.time()
    math.randomseed(seed)
    local bytes = probe.metadata_encode(example())
    for _ = 1, 3000 do
      local at = math.random(17, #bytes - 8)
      local byte = string.char(math.random(0, 255))
      local body = bytes:sub(17, at - 1) .. byte .. bytes:sub(at + 1, -9)
      local m, _, code = probe.metadata_decode(wrap(body))
      assert.is_true(m ~= nil or code == "ECORRUPT", "seed " .. seed)
    end
  end)

  it("320. an empty or short file is refused, naming the file", function()
    local bytes = probe.metadata_encode(example())
    for n = 0, #bytes - 1, 1 do
      tmp.write("_metadata", bytes:sub(1, n))
      local m, message, code = probe.metadata_read(s, dir)
      assert.is_nil(m)
      assert.equal("ECORRUPT", code)
      assert.matches(dir .. "/_metadata", message, 1, true)
    end
  end)

  it("320. what is published is never empty", function()
    assert.equal(0, probe.metadata_write(s, dir, example()))
    local log = probe.storage_log(s)
    assert.is_true(log:find("write ", 1, true) < log:find("sync ", 1, true))
    assert.is_true(log:find("sync ", 1, true) < log:find("rename ", 1, true))
    assert.is_true(log:find("rename ", 1, true) < log:find("sync_dir ", 1, true))
  end)

  it("321. killed at any byte: the previous one stays or the new one is whole", function()
    assert.equal(0, probe.metadata_write(s, dir, example(1)))
    local size = #probe.metadata_encode(example(2))
    for n = 0, size do
      probe.storage_fault(s, "bytes", n, true)
      local ok = probe.metadata_write(s, dir, example(2))
      probe.storage_fault(s, nil)
      local m = assert(probe.metadata_read(s, dir))
      assert.equal(n < size and 1 or 2, m.id)
      assert.equal(n == size, ok == 0)
    end
    for _, op in ipairs { "create", "write", "sync", "rename", "sync_dir" } do
      probe.storage_fault(s, op, 0, true)
      assert.is_nil(probe.metadata_write(s, dir, example(3)))
      probe.storage_fault(s, nil)
      assert.equal(op == "sync_dir" and 3 or 2, probe.metadata_read(s, dir).id)
    end
  end)

  it("323. a flipped bit is always found, and is never called a newer version", function()
    local seed = os.time()
    math.randomseed(seed)
    local bytes = probe.metadata_encode(example())
    local offsets = { 9, 10, 11, 12, 13, 16, 17, #bytes, #bytes - 7 }
    for _ = 1, 100 do offsets[#offsets + 1] = math.random(1, #bytes) end
    for _, at in ipairs(offsets) do
      tmp.write("_metadata", bytes:sub(1, at - 1) ..
                string.char(bytes:byte(at) ~ 1 << math.random(0, 7)) .. bytes:sub(at + 1))
      local m, message, code = probe.metadata_read(s, dir)
      assert.is_nil(m, "seed " .. seed)
      assert.equal("ECORRUPT", code)
      assert.matches(dir .. "/_metadata", message, 1, true)
    end
  end)

  it("is read by its folder's name or its own", function()
    assert.equal(0, probe.metadata_write(s, dir, example()))
    assert.equal(42, probe.metadata_read(s, dir).id)
    assert.equal(42, probe.metadata_read(s, dir .. "/").id)
    assert.equal(42, probe.metadata_read(s, dir .. "/_metadata").id)
    local m, message, code = probe.metadata_read(s, dir .. "/none")
    assert.is_nil(m)
    assert.equal("ENOTFOUND", code)
    assert.matches("/none/_metadata", message, 1, true)
  end)

  describe("verify", function()
    local m
    before_each(function()
      m = example()
      probe.storage_make_dir(s, dir .. "/chk-42/b")
      probe.storage_make_dir(s, dir .. "/chk-3")
      local a, c = m.operators[2].subtasks[1].handles[1], m.operators[2].subtasks[2].handles[1]
      m.operators[1].subtasks[1].handles[1] = keyed("old", 0, 0)
      local old = m.operators[1].subtasks[1].handles[1]
      local flight = m.operators[2].subtasks[2].handles[3]
      probe.storage_make_dir(s, dir .. "/chk-40")
      for path, h in pairs { ["chk-42/a"] = a, ["chk-42/b/c"] = c, ["chk-3/old"] = old,
                             ["chk-40/r0-g0-a7.inflight"] = flight } do
        local data = path:rep(20000)
        tmp.write(path, data)
        h.length, h.checksum = #data, xxh64(data)
      end
    end)

    local function verify(full)
      return probe.metadata_verify(s, dir .. "/chk-42", dir, m, full)
    end

    it("passes what is whole", function()
      assert.equal(0, verify(false))
      assert.equal(0, verify(true))
    end)

    it("322. names a file that is missing, in its own folder or an older one", function()
      for _, path in ipairs { "chk-42/a", "chk-42/b/c", "chk-3/old",
                              "chk-40/r0-g0-a7.inflight" } do
        local data = tmp.read(path)
        probe.storage_remove(s, dir .. "/" .. path)
        local ok, message, code = verify(false)
        assert.is_nil(ok)
        assert.equal("ENOTFOUND", code)
        assert.matches(dir .. "/" .. path, message, 1, true)
        tmp.write(path, data)
      end
    end)

    it("names a file that is short, and, where asked for, one that was altered", function()
      local data = tmp.read("chk-42/a")
      tmp.write("chk-42/a", data:sub(1, -2))
      local _, message, code = verify(false)
      assert.equal("ECORRUPT", code)
      assert.matches("/chk-42/a", message, 1, true)
      tmp.write("chk-42/a", data:sub(1, -2) .. "\0")
      assert.equal(0, verify(false))
      _, message, code = verify(true)
      assert.equal("ECORRUPT", code)
      assert.matches("/chk-42/a", message, 1, true)
    end)

    it("hands on an error of the disk", function()
      for _, op in ipairs { "open", "size", "read" } do
        probe.storage_fault(s, op, 0)
        assert.equal("EIO", select(3, verify(true)), op)
      end
    end)
  end)
end)

describe("handle", function()
  it("is copied deeply", function()
    local op = { subtasks = { { handles = { keyed("a", 5, 7), { kind = 2, lists = "\x80" } } } } }
    local handles, task, subtask, watermark = probe.handle_copy(op)
    assert.same(op.subtasks[1].handles, handles)
    assert.equal(3, task)
    assert.equal(1, subtask)
    assert.equal(MIN, watermark)
  end)
end)
