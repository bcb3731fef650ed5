-- sensors: readings without end in sight, summed up every second of the wall clock.
--
-- A generator makes 200 readings a second of four sensors; each sensor has a timer in processing time,
-- which prints the mean of what came since the last one, and sets the next.
--
--   lua5.4 examples/sensors.lua [SECONDS]                 (5)

local sc = require "streamckpt"

local RATE, SECONDS, PERIOD = 200, tonumber(arg[1] or 5), 1000

local env = sc.env { name = "sensors", parallelism = 2 }

env:from_generator { rate = RATE, count = math.tointeger(RATE * SECONDS // 1),
    fn = function(i)
      return { sensor = ("s%d"):format(i % 4), celsius = 20 + 5 * math.sin(i / 100) + i % 4 }
    end }
  :key_by("sensor")
  :process { uid = "means",
    state = { sum = sc.value() },
    on_element = function(ctx, reading)
      local sum = ctx.state.sum:get()
      if not sum then
        sum = { n = 0, celsius = 0.0 }
        ctx.timers:processing_time(ctx:now() + PERIOD)
      end
      ctx.state.sum:set { n = sum.n + 1, celsius = sum.celsius + reading.celsius }
    end,
    on_timer = function(ctx)
      local sum = ctx.state.sum:get()
      ctx:emit { sensor = ctx.key, readings = sum.n, mean = ("%.2f"):format(sum.celsius / sum.n) }
      ctx.state.sum:clear()
    end }
  :print()

env:execute()
