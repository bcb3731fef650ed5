-- What specs of whole jobs of native operators (gated_operators.h) share.
local uv = require "luv"

local gated_job = {}

function gated_job.exists(path)
  local file = io.open(path, "rb")
  if file then file:close() end
  return file ~= nil
end

--- Wait until a condition holds; `what` is said where it does not within so many seconds (60).
function gated_job.wait_for(what, condition, seconds)
  local limit = os.time() + (seconds or 60)
  while not condition() do
    assert(os.time() < limit, what)
    uv.sleep(1) -- the job needs the processor
  end
end

return gated_job
