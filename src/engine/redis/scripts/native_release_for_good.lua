-- Releases the lock of an id like native_release, and keeps a late acquire of that id from being granted: for an id
-- whose acquire was never answered and may still be pending.
-- Without it, locks cannot be released.
--
-- KEYS, ARGV[1], ARGV[2] and returns as native_release    ARGV[3] for how long, in ms
local function release()
  -- include native_held
  local news = '1'
  -- include native_free
end
local code = release()
if code == -3 then return code end
-- include native_time
local kind, bury_until = 't', now + ARGV[3]
-- include native_bury
return code
