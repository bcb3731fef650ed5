-- The Lua path: map + key_by + process with one value state, on records of five fields, beside a bare
-- Lua loop that does the same table work and encodes and decodes the record and the state value once
-- each with our codec. A second pair leaves out the state, to show what each part costs.
--   lua5.4 spec/bench/lua_path.lua [records]
local probe = require "streamckpt.probe"
local sc = require "streamckpt"
local support = require "bench.support"

local N, KEYS = tonumber(arg and arg[1]) or 200000, 1000

local function make(i)
  return { user = i * 7919 % KEYS, url = "/index.html", ts = i, bytes = i % 5000, ok = true }
end

local function widen(e) -- what the user's map does
  return { user = e.user, url = e.url, ts = e.ts, bytes = e.bytes + 1, ok = e.bytes > 100 }
end

local function count(state, e) -- what the user's process does to its state
  state = state or { n = 0, bytes = 0 }
  state.n = state.n + 1
  state.bytes = state.bytes + e.bytes
  return state
end

local function bare()
  local states = {}
  local record_bytes = probe.codec_encode(widen(make(1)))
  local state_bytes = probe.codec_encode { n = 1, bytes = 5000 }
  for i = 0, N - 1 do
    local e = widen(make(i))
    probe.codec_encode_times(e, 1)             -- the exchange
    probe.codec_decode_times(record_bytes, 1)
    probe.codec_decode_times(state_bytes, 1)   -- the state
    local state = count(states[e.user], e)
    states[e.user] = state
    probe.codec_encode_times(state, 1)
  end
end

local function engine()
  local env = sc.env { name = "lua_path" }
  env:from_generator { count = N, fn = make }
    :map(widen)
    :key_by("user")
    :process { state = { sum = sc.value() },
      on_element = function(ctx, e)
        ctx.state.sum:set(count(ctx.state.sum:get(), e))
      end }
  env:execute()
end

local function engine_without_state()
  local env = sc.env { name = "lua_path" }
  env:from_generator { count = N, fn = make }:map(widen):key_by("user")
    :process { on_element = function() end }
  env:execute()
end

local loop, job, stateless = support.best(5, { bare, engine, engine_without_state })
support.line("bare Lua loop with codec", loop / N * 1e9, 1, "bare loop")
support.line("generator, map, key_by, process", job / N * 1e9, job / loop, "bare loop", "2 x, 1500 ns")
support.line("the same, process does nothing", stateless / N * 1e9, stateless / loop, "bare loop")
