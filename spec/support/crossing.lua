-- A crossing: some senders, one receiver with a real input, and checkpoints whose cuts are kept, so
-- that specs of barriers say only what is pushed, what is read, and what must have been kept.
--
-- Senders are numbered from 0; each has a channel of its own. Records are short texts, each in a
-- buffer of its own unless `fill` is used. `starts[id]` is what the receiver had processed at its
-- start, `cuts[id]` the receiver's cut, `sent[c][id]` the cut of sender c.
local probe = require "streamckpt.probe"

local crossing = {}
crossing.__index = crossing

-- options: rigid (list of channels), ports, exclusive, segment
function crossing.new(n, options)
  options = options or {}
  local self = setmetatable({ n = n, channels = {}, outputs = {}, seen = {}, log = {}, starts = {},
    overtakes = {}, cuts = {}, sent = {}, ports = options.ports or {} }, crossing)
  self.pool = probe.pool_new(options.segment or 1000)
  local rigid = {}
  for _, c in ipairs(options.rigid or {}) do rigid[c] = true end
  for c = 0, n - 1 do
    local ch = probe.channel_new(options.exclusive or 100)
    probe.channel_name(ch, self.ports[c + 1] or 0, c, 0, rigid[c] or false)
    self.channels[c + 1] = ch
    self.outputs[c] = probe.output_new("forward", { ch }, self.pool)
    self.sent[c] = {}
  end
  self.input = probe.input_new(self.channels, options.ports)
  return self
end

-- Everything is given back: nothing may be outstanding then.
function crossing:close()
  if not self.pool then return end
  local cuts = {}
  for _, cut in pairs(self.cuts) do cuts[#cuts + 1] = cut end
  for c = 0, self.n - 1 do
    for _, cut in pairs(self.sent[c]) do cuts[#cuts + 1] = cut end
  end
  for _, cut in ipairs(cuts) do probe.cut_drop(cut) end
  probe.input_destroy(self.input)
  for c = 0, self.n - 1 do probe.output_destroy(self.outputs[c]) end
  for _, ch in ipairs(self.channels) do probe.channel_destroy(ch) end
  for _, cut in ipairs(cuts) do
    probe.cut_take(cut)
    probe.cut_destroy(cut)
  end
  local left = probe.pool_outstanding(self.pool)
  probe.pool_destroy(self.pool)
  self.pool = nil
  return left
end

-- ---- senders

function crossing:fill(c, text) probe.output_emit(self.outputs[c], text) end

function crossing:flush(c) probe.output_flush(self.outputs[c]) end

function crossing:push(c, text)
  self:fill(c, text)
  self:flush(c)
end

-- Sender c starts checkpoint id: how = "aligned", "now" (it overtakes), or the time from which it
-- may. With `late` its time has come already.
function crossing:barrier(c, id, how, late)
  local cut = probe.cut_new(id)
  local at = how == "now" and 1 or how == "aligned" and 0 or how
  probe.output_cut(self.outputs[c], id, at, how == "now" or late or false, cut)
  probe.cut_release(cut)
  self.sent[c][id] = cut
end

function crossing:overtake(c, id) probe.output_overtake(self.outputs[c], id) end
function crossing:leave(c) probe.output_close(self.outputs[c]) end

-- ---- the receiver

local function start(self, e)
  self.starts[e.id] = table.concat(self.seen, " ")
  self.overtakes[e.id] = e.overtakes or false
  local cut = probe.cut_new(e.id)
  self.cuts[e.id] = cut
  if e.overtakes then probe.input_capture(self.input, cut) end
  probe.cut_release(cut)
end

local function take(self, e)
  if e.kind == "record" then
    self.seen[#self.seen + 1] = e.value
  elseif e.kind == "snapshot" then
    self.log[#self.log + 1] = e.id .. (e.overtakes and "!" or "")
    start(self, e)
  elseif e.kind == "aborted" then
    self.log[#self.log + 1] = "-" .. e.aborted
      .. (e.superseded_by ~= 0 and "<" .. e.superseded_by or "")
    self:drop(e.aborted)
  end
  return e.kind ~= "none"
end

function crossing:drop(id)
  if self.cuts[id] and probe.cut_drop(self.cuts[id]) then
    probe.input_drop_captures(self.input, id)
  end
end

-- One event; false where there is none.
function crossing:next() return take(self, assert(probe.input_next(self.input))) end

-- One record, whatever comes before it.
function crossing:consume()
  local before = #self.seen
  while #self.seen == before do assert(self:next(), "nothing to consume") end
end

function crossing:poll()
  while self:next() do end -- all there is
end

-- Barriers at heads, as a task takes them before anything else.
function crossing:urgent()
  while true do
    local e = probe.input_next_urgent(self.input)
    if not e then return end
    take(self, e)
  end
end

function crossing:abort(id)
  probe.input_abort(self.input, id)
  self:drop(id)
end

function crossing:clock(ms)
  probe.input_clock(self.input, ms)
end

-- ---- what was kept

local function records(bytes)
  local out, at = {}, 1
  while at <= #bytes do
    local n, kind, flags = string.unpack("<I4BB", bytes, at)
    assert(kind == 0 and flags == 0)
    out[#out + 1] = bytes:sub(at + 6, at + 3 + n)
    at = at + 4 + n
  end
  return out
end

-- Whether everybody's part of id is complete.
function crossing:complete(id)
  if not self.cuts[id] or probe.cut_state(self.cuts[id]) ~= 1 then return false end
  for c = 0, self.n - 1 do
    if self.sent[c][id] and probe.cut_state(self.sent[c][id]) ~= 1 then return false end
  end
  return true
end

-- What is kept of checkpoint id, once: for each channel the receiver's records, "|", the sender's;
-- and by the second result all records in the order of a restore.
function crossing:kept(id)
  local parts, all = {}, {}
  local function collect(cut)
    for _, part in ipairs(probe.cut_take(cut)) do
      local p = parts[part.sender] or { receiver = {}, sender = {} }
      parts[part.sender] = p
      for _, r in ipairs(records(part.bytes)) do p[part.side][#p[part.side] + 1] = r end
    end
  end
  if self.cuts[id] then collect(self.cuts[id]) end
  for c = 0, self.n - 1 do
    if self.sent[c][id] then collect(self.sent[c][id]) end
  end
  local texts = {}
  for c = 0, self.n - 1 do
    local p = parts[c] or { receiver = {}, sender = {} }
    texts[#texts + 1] = table.concat(p.receiver, " ") .. "|" .. table.concat(p.sender, " ")
    for _, side in ipairs { "receiver", "sender" } do
      for _, r in ipairs(p[side]) do all[#all + 1] = r end
    end
  end
  return table.concat(texts, ", "), all
end

function crossing:told() return table.concat(self.log, " ") end

return crossing
