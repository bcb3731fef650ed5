-- folder: a temporary folder for a spec, and plain looks into it that go around the code under test.
local folder = {}
folder.__index = folder

function folder.new()
  local pipe = assert(io.popen("mktemp -d"))
  local path = pipe:read("l")
  pipe:close()
  return setmetatable({ path = path }, folder)
end

function folder:at(name) return self.path .. "/" .. name end

function folder:write(name, text)
  local f = assert(io.open(self:at(name), "wb"))
  f:write(text)
  f:close()
  return self:at(name)
end

function folder:read(name)
  local f = io.open(self:at(name), "rb")
  if not f then return nil end
  local text = f:read("a")
  f:close()
  return text
end

-- Names in bytewise order, hidden ones too.
function folder:names(sub)
  local names = {}
  local pipe = assert(io.popen("LC_ALL=C ls -A '" .. self.path .. "/" .. (sub or "") .. "' 2>/dev/null"))
  for name in pipe:lines() do names[#names + 1] = name end
  pipe:close()
  return names
end

function folder:clear() os.execute("find '" .. self.path .. "' -mindepth 1 -delete") end
function folder:remove() os.execute("rm -rf '" .. self.path .. "'") end

return folder
