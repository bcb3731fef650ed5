-- A fresh folder for one spec, and its removal.
local probe = require "streamckpt.probe"

local M = {}

function M.create()
  local name = os.tmpname()
  os.remove(name)
  probe.heap_make_dir(name)
  return name
end

function M.remove(dir)
  os.execute("rm -rf '" .. dir .. "'")
end

return M
