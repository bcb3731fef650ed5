-- A job whose barriers overtake full buffers, in a process that is killed again and again.
local folder = require "support.folder"
local pressed_kills = require "support.pressed_kills"

describe("a job under back-pressure, with unaligned checkpoints", function()
  local dir
  before_each(function() dir = folder.new() end)
  after_each(function() dir:remove() end)

  it("writes each record once, however often it is killed and however wide it starts again", function()
    local kills = pressed_kills.run { folder = dir.path, records = 20000, kills = 6, seed = os.time() }
    assert.is_true(kills >= 3, kills .. " kills")
  end)
end)
