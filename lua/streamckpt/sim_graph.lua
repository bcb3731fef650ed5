-- sim_graph: the graph of an environment as a simulation needs it: as wide as it may be, what its sinks are,
-- and where the order of rows is promised.
--
-- The environment itself stays as it is: everything here works on copies.

local env_module = require "streamckpt.env"
local misuse = require "streamckpt.misuse"
local stream = require "streamckpt.stream"

local sim_graph = {}

-- A copy of the environment's nodes, `width` tasks wide. Who asked for one task keeps it.
local function copy_nodes(env, width, count)
  local copies, out = {}, {}
  for i, node in ipairs(env.nodes) do
    local copy = {}
    for name, value in pairs(node) do copy[name] = value end
    copy.inputs = {}
    for k, origin in ipairs(node.inputs) do
      copy.inputs[k] = { node = copies[origin.node], output = origin.output,
                         partitioner = origin.partitioner, key = origin.key }
    end
    if width ~= env.options.parallelism and (copy.parallelism or 1) > 1 then copy.parallelism = width end
    if copy.kind == "generator" and not copy.spec.count then
      copy.spec = { fn = copy.spec.fn, rate = copy.spec.rate, count = count }
      copy.options = { rate = copy.options.rate, count = count }
    end
    copies[node], out[i] = copy, copy
  end
  return out
end

-- The environment, `width` tasks wide, as the engine starts it.
local function describe(env, width, count)
  local options = {}
  for name, value in pairs(env.options) do options[name] = value end
  options.parallelism = width
  options.checkpoint = setmetatable({ dir = env.options.checkpoint.dir or "ckpt" },
    { __index = env.options.checkpoint })
  local plan = env_module.describe({ options = options, id = env.id, name = env.name,
                                     nodes = copy_nodes(env, width, count) }, {})
  plan.job.warnings = nil
  return plan
end

--- The plans of a graph for several widths.
-- @param env the environment
-- @param asked an array of widths that the user asked for, or nil: those of 1, 2, 3 that it can have
-- @param count how many values a generator without a count gives
-- @return an array of widths, the environment's own first; a table from width to plan. Raises at the user's
--   line for a graph that cannot run, or not in a width that was asked for.
function sim_graph.plans(env, asked, count)
  local own = env.options.parallelism
  local widths, plans = { own }, { [own] = describe(env, own, count) }
  for _, width in ipairs(asked or { 1, 2, 3 }) do
    local ok, plan = plans[width] ~= nil, nil
    if not ok then ok, plan = pcall(describe, env, width, count) end
    if ok and plan then
      widths[#widths + 1], plans[width] = width, plan
    elseif not ok and asked then
      misuse.raise("simulate: the graph cannot be %d tasks wide: %s", width, tostring(plan))
    end
  end
  return widths, plans
end

-- ---- sinks and sources ----

local SINK_KINDS = { collect_sink = "collect", file_sink = "file", print_sink = "calls", sink = "calls" }

local function is_accepted(at_least_once, uid, call)
  if call == "print" or at_least_once == true then return true end
  return type(at_least_once) == "table" and at_least_once[uid] == true
end

local function add_sink(sinks, node, number, uid, label, at_least_once)
  local kind = SINK_KINDS[node.kind]
  if not kind then return end
  sinks[#sinks + 1] = {
    node = number, uid = uid, kind = kind, label = label, dir = node.options.dir,
    lines = node.options.format == "lines",
    at_least_once = kind == "calls" and is_accepted(at_least_once, uid, node.call),
  }
end

--- What a simulation looks at.
-- @param env the environment
-- @param plan a plan of it
-- @param at_least_once false, true, or a set of uids of sinks
-- @return an array of sinks {node, uid, kind = "collect" "file" "calls", label, dir, lines, at_least_once};
--   a table from uid to how sentences call an operator; an array of the files that sources read. Raises at
--   the user's line for a source that cannot be read again.
function sim_graph.parts(env, plan, at_least_once)
  local sinks, labels, files = {}, {}, {}
  for i, node in ipairs(env.nodes) do
    local uid = plan.operators[i].uid
    labels[uid] = stream.label(node)
    add_sink(sinks, node, i, uid, labels[uid], at_least_once)
    if node.kind == "file_source" then
      table.move(node.options.paths, 1, #node.options.paths, #files + 1, files)
    end
    if node.kind == "push_source" or node.kind == "source" and not node.spec.replayable then
      misuse.raise("simulate: %s cannot be read again%s, so a failure loses what it gave: there is nothing "
        .. "to compare with", labels[uid], node.kind == "source" and " (replayable = false)" or "")
    end
  end
  return sinks, labels, files
end

-- ---- order ----

-- The one edge that leads to an operator; nil where there are several, or none.
local function only_input(plan, to)
  local found
  for _, edge in ipairs(plan.edges) do
    if edge.to == to then
      if found then return nil end
      found = edge
    end
  end
  return found
end

-- Do all records of an operator come from one split of one source, one after another?
local function is_single(plan, number)
  local operator, edge = plan.operators[number], only_input(plan, number)
  if operator.kind == "values_source" then return true end
  if operator.kind == "file_source" then return #operator.options.paths == 1 end
  return edge ~= nil and edge.partitioner == "forward" and is_single(plan, edge.from)
end

-- Rows of one key keep their order from one split to a keyed operator and on to the sinks that run with
-- it; where splits or tasks meet, nothing is promised.
local function keeps_order(plan, number)
  local edge = only_input(plan, number)
  if not edge then return false end
  if edge.partitioner == "hash" then return is_single(plan, edge.from) end
  return edge.partitioner == "forward" and keeps_order(plan, edge.from)
end

--- Is the order of the rows of each key in a sink promised, in all these widths?
function sim_graph.promises_order(plans, widths, sink)
  for _, width in ipairs(widths) do
    if not keeps_order(plans[width], sink.node) then return false end
  end
  return true
end

return sim_graph
