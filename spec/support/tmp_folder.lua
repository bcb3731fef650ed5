-- A folder of its own for each spec that needs files: tmp.make() in before_each, tmp.remove() in
-- after_each.
local probe = require "streamckpt.probe"

local tmp = {}

function tmp.make()
  tmp.path = os.tmpname()
  os.remove(tmp.path)
  assert(probe.storage_make_dir(probe.storage_new(false), tmp.path))
  return tmp.path
end

function tmp.remove()
  assert(probe.storage_remove_tree(probe.storage_new(false), tmp.path))
end

function tmp.write(name, data)
  local f = assert(io.open(tmp.path .. "/" .. name, "wb"))
  f:write(data)
  f:close()
end

function tmp.read(name)
  local f = io.open(tmp.path .. "/" .. name, "rb")
  if not f then return nil end
  local data = f:read("a")
  f:close()
  return data
end

return tmp
