-- Frees the lock of an id as native_release does, for an operator, and leaves a mark: so that the holder's own
-- release, if it has to be repeated, is not taken for done.
-- Without it, locks cannot be broken.
--
-- KEYS, ARGV[1], ARGV[2] and returns as native_release    ARGV[3] how long the mark outlives the lease, in ms
-- ARGV[4] how much of the lease it lasts for at most, in ms
local lease_left
local function release()
  -- include native_held
  lease_left = math.min(expires - now, tonumber(ARGV[4]))
  local news = 'broken'
  -- include native_free
end
local code = release()
if code ~= 1 then return code end
-- include native_time
local kind, bury_until = 'b', now + lease_left + ARGV[3]
-- include native_bury
return code
