local probe = require "streamckpt.probe"

local MAX, MIN = math.maxinteger, math.mininteger

-- Runs "W0=12 I1 A1 E2" and gives what came out at each step: "-", "12", "12,idle", "active".
local function run(inputs, script)
  local valve, out = probe.valve_new(inputs), {}
  for kind, input, value in script:gmatch "([WIAE])(%d+)=?(%S*)" do
    local wm, status
    if kind == "W" then
      wm, status = probe.valve_watermark(valve, tonumber(input), value == "max" and MAX
        or math.tointeger(tonumber(value)))
    elseif kind == "E" then
      wm, status = probe.valve_end(valve, tonumber(input))
    else
      wm, status = probe.valve_status(valve, tonumber(input), kind == "I")
    end
    local parts = {}
    parts[#parts + 1] = wm and (wm == MAX and "max" or tostring(wm))
    parts[#parts + 1] = status
    out[#out + 1] = #parts > 0 and table.concat(parts, ",") or "-"
  end
  local current = probe.valve_current(valve)
  probe.valve_destroy(valve)
  return table.concat(out, " "), current
end

describe("valve", function()
  it("begins before any watermark", function()
    local valve = probe.valve_new(2)
    assert.equal(MIN, probe.valve_current(valve))
    probe.valve_destroy(valve)
  end)

  it("082. increasing", function()
    assert.equal("- - 0 - - - 10 12 15",
      run(3, "W0=0 W1=0 W2=0 W0=12 W2=8 W2=10 W1=15 W2=17 W0=20"))
  end)

  it("083. decreasing is ignored", function()
    local out, current = run(3, "W0=25 W1=10 W2=17 W0=12 W1=8 W2=15")
    assert.equal("- - 10 - - -", out)
    assert.equal(10, current)
  end)

  it("084. idle input is excluded", function()
    assert.equal("- - 10 15 18", run(3, "W0=15 W1=10 I2 W1=18 W0=20"))
  end)

  it("085. gradual idle", function()
    assert.equal("- - 10 17 25", run(3, "W0=25 W1=10 W2=17 I1 I2"))
  end)

  it("086. flush when all are idle does not depend on the order", function()
    local first, a = run(3, "W0=10 W1=5 W2=3 I0 I1 I2")
    local second, b = run(3, "W0=10 W1=5 W2=3 I2 I1 I0")
    assert.equal("- - 3 - - 10,idle", first)
    assert.equal("- - 3 5 10 idle", second)
    assert.equal(10, a)
    assert.equal(10, b)
  end)

  it("087. watermark while idle is ignored", function()
    assert.equal("25 idle - active 50", run(1, "W0=25 I0 W0=50 A0 W0=50"))
  end)

  it("088. resumed input lags", function()
    assert.equal("- 5 - 20 - - - 25", run(2, "W0=10 W1=5 I0 W1=20 A0 W0=15 W0=25 W1=30"))
  end)

  it("089. all idle, then one active that is behind", function()
    assert.equal("- 4 - 5,idle active - - 9", run(2, "W0=5 W1=4 I0 I1 A1 W1=4 W1=5 W1=9"))
  end)

  it("an input that lags behind the output does not hold the others back", function()
    assert.equal("- 4 - 20 - 30 - 31", run(2, "W0=5 W1=4 I0 W1=20 A0 W1=30 W0=31 W1=32"))
  end)

  it("090. toggling gives nothing redundant", function()
    assert.equal("- - - idle - - active -", run(2, "A0 A1 I1 I0 I0 I1 A1 A0"))
  end)

  it("an input that has ended limits nothing; the last one lets the last watermark out", function()
    assert.equal("- 3 5 7 max", run(2, "W0=3 W1=5 E0 W1=7 E1"))
    assert.equal("max", run(1, "E0"))
  end)

  it("the greatest watermark is the end of an input, idle or not", function()
    assert.equal("- 3 5 max", run(2, "W0=3 W1=5 W0=max W1=max"))
    assert.equal("3 idle max", run(1, "W0=3 I0 W0=max"))
  end)

  it("while an idle input may come back, ends do not let the last watermark out", function()
    local out, current = run(2, "W0=9 W1=4 I1 E0 A1 W1=5 W1=12 E1")
    assert.equal("- 4 9 idle active - 12 max", out)
    assert.equal(MAX, current)
  end)

  it("what comes from an ended input is ignored", function()
    assert.equal("- - - - - 4", run(2, "E0 W0=4 I0 A0 E0 W1=4"))
  end)

  -- The rules of the header, worked out from the whole history of each input at each step.
  local function naive(n)
    local model = { out = MIN, idle = false, wm = {}, status = {} }
    for i = 0, n - 1 do model.wm[i], model.status[i] = MIN, "A" end
    function model.step(kind, i, value)
      local before_out, before_idle = model.out, model.idle
      if kind == "W" then
        if model.status[i] == "A" and value > model.wm[i] then model.wm[i] = value end
      elseif model.status[i] ~= "E" then
        model.status[i] = kind
      end
      local active, ended, least, most = 0, 0, nil, model.out
      for k = 0, n - 1 do
        active = active + (model.status[k] == "A" and 1 or 0)
        ended = ended + (model.status[k] == "E" and 1 or 0)
        most = math.max(most, model.wm[k])
        if model.status[k] == "A" and model.wm[k] >= model.out then
          least = math.min(least or MAX, model.wm[k])
        end
      end
      if ended == n then
        model.out = MAX
      else
        model.idle = active == 0
        model.out = math.max(model.out, model.idle and most or least or MIN)
      end
      return model.out ~= before_out and model.out or nil,
        model.idle ~= before_idle and (model.idle and "idle" or "active") or nil
    end
    return model
  end

  it("agrees with a naive model on random histories", function()
    local seed = os.time()
    print("valve seed " .. seed)
    math.randomseed(seed)
    for _ = 1, 300 do
      local n = math.random(1, 5)
      local valve, model = probe.valve_new(n), naive(n)
      local history = {}
      for _ = 1, 60 do
        local p, i, t = math.random(), math.random(0, n - 1), math.random(0, 40)
        local kind = p < 0.55 and "W" or p < 0.75 and "I" or p < 0.97 and "A" or "E"
        history[#history + 1] = kind .. i .. (kind == "W" and "=" .. t or "")
        local wm, status
        if kind == "W" then wm, status = probe.valve_watermark(valve, i, t)
        elseif kind == "E" then wm, status = probe.valve_end(valve, i)
        else wm, status = probe.valve_status(valve, i, kind == "I") end
        local mwm, mstatus = model.step(kind, i, t)
        assert.same({ mwm or false, mstatus or false }, { wm or false, status or false },
          "seed " .. seed .. ": " .. table.concat(history, " "))
      end
      probe.valve_destroy(valve)
    end
  end)
end)
