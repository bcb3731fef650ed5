-- stream: the builders. A stream is what an operator emits, on its main output or a side output; every
-- builder adds an operator to the environment's graph, or says how the next edge is to be made.
--
-- A stream holds its origins, one per operator output that flows into it, each with the partitioner and
-- key of the edge that leaves there. A node of the graph, as plan.lua reads it, has
--   call, where   the builder that made it and the user's line, for messages
--   kind, native  which operator runs; native ones are C, others have their functions in `spec`
--   options       plain data for the engine
--   spec          table of the user's functions, for Lua kinds
--   inputs        origins, in order
--   outputs       "main" and the names of side outputs
--   keyed, stateful, inherits, uid, name, parallelism, max_parallelism, start_new_chain,
--   disable_chaining

local config = require "streamckpt.config"
local misuse = require "streamckpt.misuse"
local state = require "streamckpt.state"

local stream = {}

local Stream = { __name = "streamckpt.stream", __stays = "a stream, which stays in the script" }
local Sink = { __name = "streamckpt.sink", __stays = "a sink, which stays in the script" }
local stream_methods, sink_methods = {}, {}

-- Known by name, and refused as such.
local UNBUILT = { window = true, connect = true, shuffle = true, rescale = true, partition_by = true,
                  async_map = true, to_socket = true, join = true }

local function lookup(methods, unbuilt, what)
  return function(_, name)
    local method = methods[name]
    if method or type(name) ~= "string" or name:sub(1, 1) == "_" then return method end
    if unbuilt[name] then misuse.raise("%s:%s is not built yet", what, name) end
    misuse.raise("%s has no method '%s'%s", misuse.a(what), name, misuse.hint(name, methods))
  end
end

Stream.__index = lookup(stream_methods, UNBUILT, "stream")
Sink.__index = lookup(sink_methods, {}, "sink")

--- How messages name a node: "map 'parse'", "map (a.lua:3)".
function stream.label(node)
  if node.name or node.uid then return ("%s '%s'"):format(node.call, node.name or node.uid) end
  return ("%s (%s)"):format(node.call, node.where)
end

local function origin_text(origin)
  local side = origin.output ~= "main" and (", side '%s'"):format(origin.output) or ""
  return stream.label(origin.node) .. side
end

function Stream:__tostring()
  local words = {}
  for i, origin in ipairs(self.origins) do words[i] = origin_text(origin) end
  return ("streamckpt.stream<%s%s>"):format(table.concat(words, " + "), self.keyed and ", keyed" or "")
end

function Sink:__tostring()
  return ("streamckpt.sink<%s>"):format(stream.label(self.node))
end

local function check_self(self, call)
  local meta = getmetatable(self)
  if meta ~= Stream and meta ~= Sink then
    misuse.raise("%s is called on %s; write stream:%s(...), with a colon", call, misuse.shown(self), call)
  end
end

-- Add a node to the environment's graph.
local function add_node(env, node)
  node.where = misuse.place()
  node.outputs = { "main" }
  node.options = node.options or {}
  node.inputs = node.inputs or {}
  env.nodes[#env.nodes + 1] = node
  return node
end

local function stream_of(env, node)
  return setmetatable({ env = env, node = node, keyed = false,
                        origins = { { node = node, output = "main" } } }, Stream)
end

--- A new source in the graph of `env`; for env.lua.
function stream.source(env, node)
  return stream_of(env, add_node(env, node))
end

local function derive(self, node)
  check_self(self, node.call)
  node.inputs = self.origins
  return stream_of(self.env, add_node(self.env, node))
end

local function derive_sink(self, node)
  check_self(self, node.call)
  node.inputs = self.origins
  return setmetatable({ env = self.env, node = add_node(self.env, node) }, Sink)
end

-- The same stream whose next edge is made otherwise.
local function redirect(self, call, partitioner, key, keyed)
  check_self(self, call)
  local origins = {}
  for i, origin in ipairs(self.origins) do
    origins[i] = { node = origin.node, output = origin.output, partitioner = partitioner, key = key }
  end
  return setmetatable({ env = self.env, node = false, keyed = keyed, origins = origins }, Stream)
end

-- ---- operators ----

local function on_error_rule(value)
  if value == "skip" or type(value) == "function" then return value end
  return nil, "\"skip\" or a function"
end

local FUNCTION_OPTIONS = {
  uid = { check = config.text }, name = { check = config.text }, on_error = { check = on_error_rule },
}

local SOURCE_SPEC = {
  uid = { check = config.text }, name = { check = config.text }, splits = { check = config.callable },
  read = { check = config.callable }, open = { check = config.callable },
  close = { check = config.callable }, replayable = { check = config.boolean },
  push = { check = config.callable }, capacity = { check = config.integer(1, 1000000000) },
}

local PROCESS_SPEC = {
  uid = { check = config.text }, name = { check = config.text }, on_error = { check = on_error_rule },
  state = { check = function(states) return states end },
  on_element = { check = config.callable }, on_timer = { check = config.callable },
  open = { check = config.callable }, close = { check = config.callable },
  snapshot = { unbuilt = true }, restore = { unbuilt = true },
  on_left = { unbuilt = true }, on_right = { unbuilt = true },
}

local function check_callable(fn, call)
  if type(fn) ~= "function" then misuse.raise("%s needs a function, got %s", call, misuse.shown(fn)) end
end

-- A node whose work is one function of the user.
local function function_node(self, call, fn, options)
  check_self(self, call)
  check_callable(fn, call)
  local checked = config.check(FUNCTION_OPTIONS, options, call)
  return { call = call, kind = call, native = false, uid = checked.uid, name = checked.name,
           spec = { fn = fn, on_error = checked.on_error } }
end

--- Turn each value into another one.
-- @param fn fn(value, ctx) -> the new value, not nil; a C function, tonumber say, gets the value alone.
--   What it returns is the next operator's from then on: return a copy of a table that the function keeps
-- @param options {uid, name, on_error = "skip" or fn(message, value, ctx)}; with "skip" bad values go
--   to side("errors") as {record, error}
-- @return the new stream. Raises at the caller's line if fn is no function.
-- Example: lines:map(function(line) return { n = #line } end)
function stream_methods:map(fn, options)
  return derive(self, function_node(self, "map", fn, options))
end

--- Keep the values for which fn is true.
-- @param fn fn(value, ctx) -> anything; nil and false drop the value
-- @param options as for map
-- @return the new stream
-- Example: lines:filter(function(line) return line ~= "" end)
function stream_methods:filter(fn, options)
  return derive(self, function_node(self, "filter", fn, options))
end

--- Turn each value into any number of values.
-- @param fn fn(value, ctx); it may return an array, whose elements are emitted, and call ctx:emit(v)
-- @param options as for map
-- @return the new stream
-- Example: lines:flat_map(function(line, ctx) for w in line:gmatch("%a+") do ctx:emit(w) end end)
function stream_methods:flat_map(fn, options)
  return derive(self, function_node(self, "flat_map", fn, options))
end

local function key_fields(key)
  if type(key) == "string" then key = { key } end
  if type(key) ~= "table" or #key == 0 then return nil end
  local fields, count = {}, 0
  for _ in pairs(key) do count = count + 1 end
  if count ~= #key then return nil end
  for i, field in ipairs(key) do
    if type(field) ~= "string" or field == "" then return nil end
    fields[i] = field
  end
  return fields
end

--- Give each value a key; values of one key go to one task, which keeps their state together.
-- @param key a field's name, an array of names, or fn(value) -> key. Keys are strings, numbers,
--   booleans, and arrays of these.
-- @return the keyed stream: process and reduce on it have state, timers and ctx.key. With names there
--   is no operator of its own, so uid() and the like have nothing to act on.
-- Example: visits:key_by("ip"); visits:key_by { "country", "city" }
function stream_methods:key_by(key)
  if type(key) == "function" then
    local node = function_node(self, "key_by", key)
    node.inherits = true
    local keyed = redirect(derive(self, node), "key_by", "hash", nil, true)
    keyed.node = node
    return keyed
  end
  local fields = key_fields(key)
  if not fields then
    misuse.raise("key_by needs the name of a field, an array of names, or a function, got %s",
      misuse.shown(key))
  end
  return redirect(self, "key_by", "hash", fields, true)
end

local WATERMARKS = {
  timestamp = {
    check = function(value)
      if type(value) == "function" then return value end
      if config.text(value) then return value end
      return nil, "the name of a field, or a function"
    end,
  },
  out_of_orderness = { check = config.duration, default = 0 },
  idleness = { unbuilt = true },
  uid = { check = config.text }, name = { check = config.text },
}

--- Give values their time, and emit watermarks: "nothing older than this is to come".
-- @param options {timestamp = a field's name or fn(value) -> ms since 1970; without it values keep
--   the timestamp that their source gave them, out_of_orderness = how late values may come, a
--   duration, 0 by default, uid, name}
-- @return the new stream
-- Example: events:watermarks { timestamp = "ts", out_of_orderness = "10s" }
function stream_methods:watermarks(options)
  check_self(self, "watermarks")
  local checked = config.check(WATERMARKS, options, "watermarks")
  local input, field = self, checked.timestamp
  if type(field) == "function" then
    local node = function_node(self, "timestamps", field)
    node.inherits = true
    input, field = derive(self, node), nil
  end
  return derive(input, {
    call = "watermarks", kind = "watermarks", native = true, uid = checked.uid, name = checked.name,
    options = { field = field, out_of_orderness = checked.out_of_orderness },
  })
end

--- The general operator: state, timers, any number of outputs.
-- @param spec {on_element = function(ctx, value), on_timer = function(ctx, time, domain),
--   open = function(ctx), close = function(ctx), state = {name = sc.value() or sc.map()}, uid, name,
--   on_error as for map}; or only the function on_element
-- @return the new stream; side(name) is what ctx:side(name, v) emits. Raises at the caller's line for
--   unknown fields, and for state or timers without key_by before.
-- Example: s:key_by("k"):process { state = { n = sc.value() }, on_element = function(ctx, v)
--   local n = (ctx.state.n:get() or 0) + 1; ctx.state.n:set(n); ctx:emit { k = ctx.key, n = n } end }
function stream_methods:process(spec)
  check_self(self, "process")
  if type(spec) == "function" then spec = { on_element = spec } end
  local checked = config.check(PROCESS_SPEC, spec, "process")
  if not checked.on_element then misuse.raise("process needs on_element, a function(ctx, value)") end
  local states = state.plain(checked.state, "process")
  if not self.keyed and (states or checked.on_timer) then
    misuse.raise("process with %s needs key_by before it: each key has its own",
      states and "state" or "on_timer")
  end
  local node = {
    call = "process", kind = "process", native = false, keyed = self.keyed,
    stateful = states ~= nil or checked.on_timer ~= nil, uid = checked.uid, name = checked.name,
    spec = { on_element = checked.on_element, on_timer = checked.on_timer, open = checked.open,
             close = checked.close, on_error = checked.on_error, state = states },
  }
  return derive(self, node)
end

--- Fold the values of each key into one, and emit it after every value.
-- @param fn fn(a, b) -> the value that stands for both; the first value of a key is its own
-- @param options as for map
-- @return the new stream. Raises at the caller's line without key_by before.
-- Example: counts:key_by("word"):reduce(function(a, b) return { word = a.word, n = a.n + b.n } end)
function stream_methods:reduce(fn, options)
  check_self(self, "reduce")
  if not self.keyed then misuse.raise("reduce needs key_by before it: it folds the values of each key") end
  local node = function_node(self, "reduce", fn, options)
  node.keyed, node.stateful = true, true
  return derive(self, node)
end

-- ---- edges ----

--- One stream of the values of several; nothing is promised about their order.
-- @param ... other streams of the same environment, without keys
-- @return the new stream
-- Example: a:union(b, c):map(f)
function stream_methods:union(...)
  check_self(self, "union")
  local united = { env = self.env, node = false, keyed = false, origins = {} }
  for i, part in ipairs(table.pack(self, ...)) do
    if getmetatable(part) ~= Stream then
      misuse.raise("union needs streams, got %s", misuse.shown(part))
    end
    if part.env ~= self.env then misuse.raise("union needs streams of the same environment") end
    if part.keyed then
      misuse.raise("union of a keyed stream (number %d) loses its key; use key_by after union", i)
    end
    table.move(part.origins, 1, #part.origins, #united.origins + 1, united.origins)
  end
  if select("#", ...) == 0 then misuse.raise("union needs at least one other stream") end
  return setmetatable(united, Stream)
end

--- Deal the values to the tasks of the next operator in turn.
-- @return the stream. Example: lines:rebalance():map(slow)
function stream_methods:rebalance()
  return redirect(self, "rebalance", "rebalance", nil, false)
end

--- Give every value to all tasks of the next operator.
-- @return the stream. Example: rules:broadcast():process(spec)
function stream_methods:broadcast()
  return redirect(self, "broadcast", "broadcast", nil, false)
end

--- Give the values of each task to the task of the same number: the default where the parallelism is
-- the same, and refused when the job starts where it is not.
-- @return the stream. Example: lines:forward():map(f)
function stream_methods:forward()
  return redirect(self, "forward", "forward", nil, false)
end

local HAS_SIDES = { process = true, map = true, flat_map = true, filter = true, source = true,
                    reduce = true }

--- What an operator emits on a side output, by ctx:side(name, value).
-- @param name the name of the side output; "errors" is where on_error = "skip" puts bad records
-- @return the stream of that output
-- Example: local late = visits:side("late")
function stream_methods:side(name)
  check_self(self, "side")
  local node = self.node
  if not node or not HAS_SIDES[node.kind] or self.keyed then
    misuse.raise("%s has no side outputs; side follows process, map, flat_map, filter, reduce or source",
      tostring(self))
  end
  if not config.text(name) or name == "main" then
    misuse.raise("side needs a name, and not 'main', got %s", misuse.shown(name))
  end
  local there = false
  for _, output in ipairs(node.outputs) do there = there or output == name end
  if not there then node.outputs[#node.outputs + 1] = name end
  return setmetatable({ env = self.env, node = false, keyed = false,
                        origins = { { node = node, output = name } } }, Stream)
end

-- ---- sinks ----

local SINK_SPEC = {
  uid = { check = config.text }, name = { check = config.text }, fn = { check = config.callable },
  on_error = { check = on_error_rule }, open = { check = config.callable },
  close = { check = config.callable },
}

--- Call a function for each value. After a failure it is called again for what came since the last
-- checkpoint: at least once.
-- @param spec fn(value, ctx), or {fn, open = function(ctx), close = function(ctx), uid, name, on_error}
-- @return a sink, which has uid, name, parallelism and the like
-- Example: alerts:sink(function(alert) io.stderr:write(alert.text, "\n") end)
function stream_methods:sink(spec)
  if type(spec) == "function" then spec = { fn = spec } end
  check_self(self, "sink")
  local checked = config.check(SINK_SPEC, spec, "sink")
  check_callable(checked.fn, "sink")
  return derive_sink(self, {
    call = "sink", kind = "sink", native = false, uid = checked.uid, name = checked.name,
    spec = { fn = checked.fn, open = checked.open, close = checked.close, on_error = checked.on_error },
  })
end

--- Call a function for each value: sink in its short form, with the same promise.
-- @param fn fn(value, ctx)
-- @param options as for map
-- @return a sink. Example: alerts:to(function(alert) io.stderr:write(alert.text, "\n") end)
function stream_methods:to(fn, options)
  local node = function_node(self, "to", fn, options)
  node.kind = "sink"
  return derive_sink(self, node)
end

local FILE_OPTIONS = {
  format = { check = config.one_of("json", "lines"), default = "json" },
  existing = { check = config.one_of("refuse", "overwrite", "append"), default = "refuse" },
  uid = { check = config.text }, name = { check = config.text },
}

--- Write the values to files in a folder, exactly once where the job takes checkpoints.
-- @param dir the folder; it is made if it is missing
-- @param options {format = "json" (default) or "lines", existing = what a fresh start does where the
--   folder holds output of this job: "refuse" (default), "overwrite" or "append", uid, name}
-- @return a sink
-- Example: results:to_file("out", { format = "json" }):uid("out")
function stream_methods:to_file(dir, options)
  if not config.text(dir) then
    misuse.raise("to_file needs the path of a folder, got %s", misuse.shown(dir))
  end
  local checked = config.check(FILE_OPTIONS, options, "to_file")
  return derive_sink(self, {
    call = "to_file", kind = "file_sink", native = true, stateful = true, uid = checked.uid,
    name = checked.name, options = { dir = dir, format = checked.format, existing = checked.existing },
  })
end

--- Print each value as a line of JSON.
-- @param prefix text before each line; none by default
-- @return a sink. Example: counts:print("count> ")
function stream_methods:print(prefix)
  if prefix ~= nil and type(prefix) ~= "string" then
    misuse.raise("print takes a prefix, a string, got %s", misuse.shown(prefix))
  end
  return derive_sink(self, { call = "print", kind = "print_sink", native = true,
                             options = { prefix = prefix ~= "" and prefix or nil } })
end

--- Keep the values for the script: rows(uid) of what execute returns. With checkpoints, rows can be
-- read when the checkpoint after them is complete.
-- @return a sink; give it a uid
-- Example: counts:collect():uid("counts"); local rows = env:execute():rows("counts")
function stream_methods:collect()
  return derive_sink(self, { call = "collect", kind = "collect_sink", native = true, stateful = true })
end

-- ---- settings of the operator that was just made; streams and sinks have them all ----

local function node_to_set(self, setting)
  check_self(self, setting)
  if not self.node then
    misuse.raise("%s has nothing to act on: %s is no operator of its own", setting, tostring(self))
  end
  return self.node
end

local settings = {}

--- The identity of the operator in snapshots: state finds its operator by it.
-- @param uid a string, unique in the job
-- @return the same stream or sink. Raises at the caller's line if it is taken.
-- Example: lines:map(parse):uid("parse")
function settings:uid(uid)
  local node = node_to_set(self, "uid")
  if not config.text(uid) then misuse.raise("uid needs a string, got %s", misuse.shown(uid)) end
  for _, other in ipairs(self.env.nodes) do
    if other ~= node and other.uid == uid then
      misuse.raise("uid '%s' is taken by %s (%s)", uid, other.call, other.where)
    end
  end
  node.uid = uid
  return self
end

--- What logs, errors and metrics call the operator; its uid by default.
-- @param name a string
-- @return the same stream or sink. Example: lines:map(parse):name("parse lines")
function settings:name(name)
  local node = node_to_set(self, "name")
  if not config.text(name) then misuse.raise("name needs a string, got %s", misuse.shown(name)) end
  node.name = name
  return self
end

local parallelism_rule = config.integer(1, 32768)

--- How many tasks run the operator; the job's parallelism by default.
-- @param n an integer from 1 to 32768
-- @return the same stream or sink. Example: lines:map(slow):parallelism(4)
function settings:parallelism(n)
  local node = node_to_set(self, "parallelism")
  local checked, expected = parallelism_rule(n)
  if not checked then misuse.raise("parallelism must be %s, got %s", expected, misuse.shown(n)) end
  if node.single and checked > 1 then
    misuse.raise("parallelism %d of %s: it has one reader, since its lines come in one stream; use "
      .. "rebalance() after it", checked, node.call)
  end
  node.parallelism = checked
  return self
end

--- The most tasks that the operator can ever have: its number of key groups, fixed once there is state.
-- @param n an integer from 1 to 32768; derived from the parallelism by default
-- @return the same stream or sink. Example: keyed:process(spec):max_parallelism(128)
function settings:max_parallelism(n)
  local node = node_to_set(self, "max_parallelism")
  local checked, expected = parallelism_rule(n)
  if not checked then misuse.raise("max_parallelism must be %s, got %s", expected, misuse.shown(n)) end
  node.max_parallelism = checked
  return self
end

--- Do not chain the operator to the one before it.
-- @return the same stream or sink. Example: lines:map(slow):start_new_chain()
function settings:start_new_chain()
  node_to_set(self, "start_new_chain").start_new_chain = true
  return self
end

--- Chain the operator to neither side.
-- @return the same stream or sink. Example: lines:map(slow):disable_chaining()
function settings:disable_chaining()
  node_to_set(self, "disable_chaining").disable_chaining = true
  return self
end

-- ---- arguments that a call would only ignore, and that therefore somebody took for something ----

-- Refuse all arguments but the first `count`; `takes` says which those are.
local function refuse_surplus(methods, call, count, takes)
  local method = methods[call]
  methods[call] = function(self, ...)
    local surplus = select(count + 1, ...)
    if surplus ~= nil then misuse.raise("%s takes %s, got %s", call, takes, misuse.shown(surplus)) end
    return method(self, ...)
  end
end

refuse_surplus(stream_methods, "key_by", 1, "one key, several names as an array: key_by { \"a\", \"b\" }")
refuse_surplus(stream_methods, "collect", 0, "no argument; its uid is given by :uid(...)")
for _, call in ipairs { "rebalance", "broadcast", "forward" } do
  refuse_surplus(stream_methods, call, 0, "no argument")
end
for _, call in ipairs { "start_new_chain", "disable_chaining" } do
  refuse_surplus(settings, call, 0, "no argument")
end

for name, method in pairs(settings) do
  stream_methods[name], sink_methods[name] = method, method
end

--- The schemas of sources that have functions, for env.lua.
stream.SOURCE_SPEC = SOURCE_SPEC
stream.lookup = lookup

return stream
