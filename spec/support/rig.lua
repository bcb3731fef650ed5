-- Shorthands over the rig of probe_binding.c: chains of Lua operators from their source.
local probe = require "streamckpt.probe"

local rig = {}

-- specs: Lua source of each operator's spec table; ops: what the rig is told about each, or a kind.
function rig.try(specs, ops, log)
  if type(specs) == "string" then specs = { specs } end
  if type(ops) == "string" or ops.kind then ops = { ops } end
  local told = {}
  for i, op in ipairs(ops) do
    told[i] = type(op) == "string" and { kind = op } or op
    told[i].outputs = told[i].outputs or { "main" }
  end
  local source = "return { operators = { " .. table.concat(specs, ",\n") .. " } }"
  local r, message, code = probe.binding_new(source, told, log)
  if not r then return nil, message, code end
  local ok
  ok, message, code = r:open()
  if not ok then
    r:close()
    return nil, message, code
  end
  return r
end

function rig.new(...)
  return assert(rig.try(...))
end

-- The values of events of one kind ("emit" by default), of one operator (the last by default).
function rig.values(events, how, op)
  local out = {}
  for _, e in ipairs(events) do
    if e.how == (how or "emit") and (not op or e.op == op) then out[#out + 1] = e.value end
  end
  return out
end

-- What push emits on the last operator's outputs, as values.
function rig.push(r, ...)
  return rig.values(assert(r:push(...)))
end

return rig
