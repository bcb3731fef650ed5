-- The simulator over its first seeds. `make sim SEEDS=20000` runs more of them.
local SEEDS = 300

describe("simulation", function()
  it(("of %d seeds loses and doubles nothing"):format(SEEDS), function()
    local program = assert(package.searchpath("streamckpt.probe", package.cpath)):gsub("streamckpt/probe%.so$", "sim")
    local pipe = assert(io.popen(("'%s' --seeds %d --first 1 2>&1"):format(program, SEEDS)))
    local said = pipe:read("a")
    local ok, _, status = pipe:close()
    assert(ok, ("the simulator ended with %s:\n%s"):format(status, said:sub(-4000)))
    assert.matches(("%d seeds from 1 on, 0 failed"):format(SEEDS), said, 1, true)
  end)
end)
