-- plan: from the graph that the builders made to the plain table that the engine starts.
--
-- Nothing here depends on addresses, time, or the order of a table's keys, so that the same script
-- gives the same uids in every process.

local misuse = require "streamckpt.misuse"
local stream = require "streamckpt.stream"

local plan = {}

-- FNV-1a over 64 bits: short, and no one chooses the input to make two collide.
local function fnv1a(text)
  local hash = 0xcbf29ce484222325
  for i = 1, #text do hash = (hash ~ text:byte(i)) * 0x100000001b3 end
  return hash
end

-- What an operator without uid is, told by its kind and by what flows into it.
local function graph_hash(node, uids)
  local words = { node.kind }
  for _, origin in ipairs(node.inputs) do
    words[#words + 1] = ("%s\0%s\0%s\0%s"):format(uids[origin.node], origin.output,
      origin.partitioner or "", origin.key and table.concat(origin.key, "\1") or "")
  end
  return ("%s-%016x"):format(node.kind, fnv1a(table.concat(words, "\2")))
end

-- A table from node to uid. Nodes stand in the order in which they were made, inputs first.
local function assign_uids(nodes)
  local uids, taken = {}, {}
  for _, node in ipairs(nodes) do
    if node.uid then
      local other = taken[node.uid]
      if other then
        misuse.raise("uid '%s' is given to two operators: %s (%s) and %s (%s)", node.uid, other.call,
          other.where, node.call, node.where)
      end
      taken[node.uid] = node
    end
  end
  for _, node in ipairs(nodes) do
    local uid = node.uid or graph_hash(node, uids)
    local base, number = uid, 1
    while not node.uid and taken[uid] do
      number = number + 1
      uid = ("%s-%d"):format(base, number)
    end
    taken[uid], uids[node] = node, uid
  end
  return uids
end

-- The parallelism that was asked for, or 0 for the job's. Small helpers of a builder run as wide as
-- what they follow, so that they can be chained to it.
local function asked_parallelism(node)
  while not node.parallelism and node.inherits and #node.inputs == 1 do node = node.inputs[1].node end
  return node.parallelism or 0
end

local function effective_parallelism(node, job_parallelism)
  local asked = asked_parallelism(node)
  return asked > 0 and asked or job_parallelism
end

-- What messages, logs and metrics call an operator: as the user named it, or else by where it was made,
-- since a uid that was made up tells nobody which of five maps it is.
local function title_of(node)
  local place = node.where:match("^[^%[].*/([^/]*)$") or node.where
  return node.name or node.uid or ("%s at %s"):format(node.call, place)
end

local function operator_of(node, uid, options)
  local parallelism = asked_parallelism(node)
  local most = node.max_parallelism or options.max_parallelism or 0
  local width = parallelism > 0 and parallelism or options.parallelism
  if most > 0 and width > most then
    misuse.raise("%s: parallelism %d is more than max_parallelism %d", stream.label(node), width, most)
  end
  local operator_options = { outputs = table.move(node.outputs, 1, #node.outputs, 1, {}) }
  for name, value in pairs(node.options) do operator_options[name] = value end
  return {
    kind = node.kind, uid = uid, name = title_of(node),
    parallelism = parallelism, max_parallelism = most,
    keyed = node.keyed == true, native = node.native, options = operator_options,
    start_new_chain = node.start_new_chain == true, disable_chaining = node.disable_chaining == true,
    auto_uid = node.uid == nil,
  }
end

local function partitioner_of(origin, node, job_parallelism)
  local from = effective_parallelism(origin.node, job_parallelism)
  local to = effective_parallelism(node, job_parallelism)
  if origin.partitioner == "forward" and from ~= to then
    misuse.raise("forward from %s to %s needs the same parallelism on both sides, not %d and %d",
      stream.label(origin.node), stream.label(node), from, to)
  end
  return origin.partitioner or (from == to and "forward" or "rebalance")
end

local function edges_of(nodes, numbers, job_parallelism)
  local edges = {}
  for i, node in ipairs(nodes) do
    for _, origin in ipairs(node.inputs) do
      edges[#edges + 1] = {
        from = numbers[origin.node], output = origin.output, to = i, port = 0,
        partitioner = partitioner_of(origin, node, job_parallelism), key = origin.key,
        unnamed = origin.partitioner == nil,
      }
    end
  end
  return edges
end

-- One sentence for each operator whose state a changed graph could lose.
local function warnings_of(nodes, checkpointing)
  local warnings = {}
  if not checkpointing then return warnings end
  for _, node in ipairs(nodes) do
    if node.stateful and not node.uid then
      warnings[#warnings + 1] = ("%s (%s) has state but no uid: give it one with :uid(...), so that "
        .. "snapshots still fit when the script changes"):format(node.call, node.where)
    end
  end
  return warnings
end

--- The engine's view of a graph.
-- @param nodes the graph's nodes, as stream.lua makes them
-- @param options the checked options of sc.env
-- @return {operators, edges, slots, warnings, functions, labels}: functions[i] is the table of the
--   functions of Lua operator i, labels[i] names operator i in messages
-- Raises at the user's line where the graph cannot run.
function plan.build(nodes, options)
  if #nodes == 0 then
    misuse.raise("the environment has no streams yet; begin with env:from_file, env:from_values, ...")
  end
  local uids, numbers = assign_uids(nodes), {}
  local out = { operators = {}, functions = {}, labels = {}, slots = options.slots or 1 }
  for i, node in ipairs(nodes) do
    numbers[node] = i
    out.operators[i] = operator_of(node, uids[node], options)
    out.labels[i] = ("operator '%s' (%s)"):format(node.name or node.uid or node.call, node.where)
    if not node.native then out.functions[i] = node.spec end
    if not options.slots then
      out.slots = math.max(out.slots, effective_parallelism(node, options.parallelism))
    end
  end
  out.edges = edges_of(nodes, numbers, options.parallelism)
  out.warnings = warnings_of(nodes, options.checkpoint.dir ~= nil)
  return out
end

return plan
