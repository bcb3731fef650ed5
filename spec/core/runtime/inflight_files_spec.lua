local probe = require "streamckpt.probe"
local tmp = require "support.tmp_folder"

-- src (2) -hash-> mid (2, 8 groups) -rebalance-> end (2); mid and out are one chain
local GRAPH = {
  nodes = {
    { uid = "src", source = true, parallelism = 2, max_parallelism = 8 },
    { uid = "mid", keyed = true, parallelism = 2, max_parallelism = 8 },
    { uid = "out", parallelism = 2, max_parallelism = 8 },
    { uid = "end", parallelism = 2, max_parallelism = 8 },
  },
  edges = {
    { 1, 2, by = "hash", key = { "k" } }, { 2, 3 }, { 3, 4, by = "rebalance" },
  },
}
local MIN = math.mininteger

describe("inflight_files", function()
  local dir, s
  before_each(function()
    dir = tmp.make()
    s = probe.storage_new(false)
    for _, id in ipairs { 7, 8 } do probe.storage_make_dir(s, dir .. "/chk-" .. id) end
  end)
  after_each(tmp.remove)

  local function list(folder) return probe.storage_names(s, dir .. "/" .. folder) end

  local function open(members, per_file)
    local f = { out = {} }
    local impl = probe.inflight_files(s, dir, GRAPH, { attempt = 3, generation = 4,
                                                       members = members, per_file = per_file })
    for _, what in ipairs { "begin", "withdraw", "abort", "leave", "close" } do
      f[what] = function(member, id) probe.inflight_files_tell(impl, what, member, id) end
    end
    function f.add(member, id, parts) probe.inflight_files_add(impl, f.out, member, id, parts or {}) end
    function f.run() return probe.inflight_files_run(impl, f.out) end
    function f.buffers() return probe.inflight_files_buffers(impl) end
    -- Who was told what since the last look: "member:code or number of handles", sorted.
    function f.told()
      local told = {}
      for i, t in ipairs(f.out) do
        told[i] = t.member .. ":" .. (t.failed or #t.handles)
        f.out[i] = nil
      end
      table.sort(told)
      return table.concat(told, " ")
    end
    return f
  end

  local function sent(bytes, sender) return { edge = 0, sender = sender or 0, receiver = 1, side = 1,
                                              buffers = { bytes } } end
  local function file(id, group) return tmp.read("chk-" .. id .. "/r0-g" .. (group or 0) .. "-a3.inflight") end

  it("says of each part which channel it is of and where it lies", function()
    local f = open(1, 5)
    f.begin(0, 7)
    f.add(0, 7, {
      { edge = 2, sender = 1, receiver = 0, side = 1, buffers = { "abc", "de" } },
      { edge = 0, sender = 0, receiver = 1, side = 0, watermark = 9, idle = true, skip = 2,
        buffers = { "xxyz" } },
      { edge = 0, sender = 1, receiver = 1, side = 0, watermark = 5 }, -- its watermark only
      { edge = 0, sender = 1, receiver = 1, side = 0 },                -- as it began: nothing
    })
    local told = f.out[1]
    assert.equal(7 + 3 * 12, told.bytes)
    local h = told.handles
    assert.equal(3, #h)
    local size = #file(7)
    local function expect(i, want)
      want.kind, want.generation, want.position = 3, 4, want.position or 0
      if want.file then
        want.length, want.skip, want.file = size, 0, "r0-g0-a3.inflight"
        want.checksum = require "support.xxh64" (file(7))
      end
      assert.same(want, h[i])
    end
    local first = size - (12 + 2) - (12 + 3) - (12 + 2)
    expect(1, { edge = 0, sender = 0, receiver = 1, origin = 1, side = 0, watermark = 9, idle = true,
                file = true, first = 4, last = 7, offset = first + 29, bytes = 14 })
    expect(2, { edge = 0, sender = 1, receiver = 1, origin = 1, side = 0, watermark = 5, idle = false,
                first = 4, last = 7 })
    expect(3, { edge = 2, sender = 1, receiver = 0, origin = 0, side = 1, watermark = MIN,
                idle = false, file = true, offset = first, bytes = 29, position = 1 })
    assert.equal(0, f.buffers())
  end)

  it("142. a thousand channels with a byte each cost a thousand bytes and a head each, once", function()
    local function cost(channels)
      local f = open(1, 1)
      local parts = {}
      for i = 1, channels do
        parts[i] = { edge = 0, sender = i, receiver = 1, side = 1, buffers = { "x" } }
      end
      f.begin(0, 7)
      f.add(0, 7, parts)
      local told = f.out[1]
      assert.equal(channels, #told.handles)
      return told.bytes, #file(7), told.handles
    end
    local one, of_one = cost(1)
    probe.storage_remove(s, dir .. "/chk-7/r0-g0-a3.inflight")
    local all, of_all, handles = cost(1000)
    assert.equal(12 + 1, one)
    assert.equal(1000 * one, all)
    assert.equal(of_one + 999 * one, of_all) -- the file's own head is there once
    for _, h in ipairs(handles) do assert.equal(one, h.bytes) end
  end)

  it("finishes a file when every member is through, and gives buffers back before", function()
    local f = open(4, 3)
    for m = 0, 3 do f.begin(m, 7) end
    f.add(0, 7, { sent "abc" })
    assert.equal(0, f.buffers())
    f.add(2, 7, { sent "def" })
    assert.equal("", f.told())
    assert.is_nil(file(7))
    f.add(3, 7, { sent "ghi" }) -- another group
    assert.equal("3:1", f.told())
    f.add(1, 7)                 -- nothing of its own, and done at once; the file with it
    assert.equal("0:1 1:0 2:1", f.told())
    assert.is_true(#file(7) > 0 and #file(7, 1) > 0)
  end)

  it("lets a share without records wait for nobody", function()
    local f = open(2, 2)
    f.begin(0, 7)
    f.add(0, 7, { { edge = 0, sender = 0, receiver = 1, side = 0, watermark = 5 } })
    assert.equal("0:1", f.told())
    f.begin(1, 7)
    f.add(1, 7, {})
    assert.equal("1:0", f.told())
    assert.is_nil(file(7))
  end)

  it("waits for a member that has not begun, not for one that withdrew or left", function()
    for _, how in ipairs { "withdraw", "leave" } do
      local f = open(2, 2)
      f.begin(0, 7)
      f.add(0, 7, { sent "abc" })
      f.begin(1, 7)
      f.run()
      assert.equal("", f.told())
      f[how](1, 7)
      assert.equal("", f.told()) -- the slot writes nothing itself
      assert.equal(1, f.run())
      assert.equal("0:1", f.told(), how)
    end
    local f = open(2, 2)
    f.leave(1)
    f.begin(0, 8)
    f.add(0, 8, { sent "abc" })
    assert.equal("0:1", f.told())
  end)

  it("keeps the checkpoints of one group apart", function()
    local f = open(2, 2)
    f.begin(0, 7); f.begin(0, 8); f.begin(1, 8); f.begin(1, 7)
    f.add(0, 7, { sent "abc" })
    f.add(0, 8, { sent "d" })
    f.add(1, 8, {})
    assert.equal("0:1 1:0", f.told())
    assert.is_nil(file(7))
    f.add(1, 7, { sent "efg" })
    assert.equal("0:1 1:1", f.told())
    assert.is_true(#file(7) > #file(8))
  end)

  it("an abort ends what waits, and what comes after it, and leaves no file", function()
    local f = open(3, 3)
    for m = 0, 2 do f.begin(m, 7) end
    f.add(0, 7, { sent "abc" })
    f.abort(1, 7)
    f.abort(0, 7)
    f.add(1, 7, { sent "def" })
    f.run()
    assert.equal("0:ESTALE 1:ESTALE", f.told())
    f.add(2, 7, {})
    assert.equal("2:ESTALE", f.told())
    assert.same({}, list("chk-7"))
    assert.equal(0, f.buffers())
    f.begin(1, 8) -- the next is not concerned
    f.leave(0); f.leave(2)
    f.add(1, 8, { sent "x" })
    assert.equal("1:1", f.told())
  end)

  it("a failed write is everybody's, whoever adds later too", function()
    for _, op in ipairs { "create", "write", "sync", "rename" } do
      local f = open(2, 2)
      f.begin(0, 7); f.begin(1, 7)
      f.add(0, 7, { sent(("x"):rep(200000)) })
      probe.storage_fault(s, op, 0)
      f.add(1, 7, { sent(("y"):rep(200000)) })
      probe.storage_fault(s, nil)
      local told = f.told()
      assert.equal(op == "create" and "0:1 1:1" or "0:EIO 1:EIO", told, op)
      assert.equal(0, f.buffers())
      if op ~= "create" then assert.same({}, list("chk-7"), op) end
      probe.storage_remove(s, dir .. "/chk-7/r0-g0-a3.inflight")
    end
    local f = open(2, 2)
    f.begin(0, 7); f.begin(1, 7)
    probe.storage_fault(s, "create", 0)
    f.add(0, 7, { sent "abc" })
    assert.equal("0:EIO", f.told())
    f.add(1, 7, { sent "def" })
    assert.equal("1:EIO", f.told())
    assert.same({}, list("chk-7"))
  end)

  it("closing ends everything, and a share that comes later", function()
    local f = open(2, 2)
    f.begin(0, 7); f.begin(1, 7)
    f.add(0, 7, { sent "abc" })
    f.close()
    f.run()
    assert.equal("0:ESTALE", f.told())
    f.add(1, 7, { sent "def" })
    f.begin(1, 8)
    f.add(1, 8, { sent "def" })
    assert.equal("1:ESTALE 1:ESTALE", f.told())
    assert.same({}, list("chk-7"))
    assert.equal(0, f.buffers())
  end)

  it("keeps a rest as it lies, or copies it", function()
    local f = open(1, 1)
    local length, checksum, offsets = probe.inflight_write(s, dir .. "/chk-7/old", 7, 2,
                                                           { "abcdef", "gh" })
    local rest = { kind = 3, edge = 2, sender = 5, receiver = 1, origin = 0, generation = 2, side = 1,
                   watermark = 3, idle = false, file = "old", directory = "chk-7", length = length,
                   checksum = checksum, offset = offsets[1], bytes = length - offsets[1], skip = 4 }
    f.begin(0, 8)
    f.add(0, 8, { rests = { rest } })
    assert.is_nil(file(8))
    rest.position = 0 -- the receiver's, whoever kept it first
    assert.same({ rest }, f.out[1].handles)
    assert.equal(length - offsets[1] - 4, f.out[1].bytes)
    f.told()
    rest.position, rest.copy_from, rest.directory = nil, dir .. "/chk-7", nil
    f.begin(0, 8)
    f.add(0, 8, { sent "own", rests = { rest } })
    local h = f.out[1].handles
    assert.equal(2, #h)
    assert.equal("r0-g0-a3.inflight", h[1].file)
    assert.is_nil(h[1].directory)
    assert.same({ 0, 12 + 2 + 12 + 2, 2, 5, 1 }, { h[1].skip, h[1].bytes, h[1].generation, h[1].sender,
                                                   h[1].side })
    assert.equal(#file(8), h[1].length)
  end)
end)
