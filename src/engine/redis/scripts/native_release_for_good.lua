-- Releases the lock of an id like native_release, and keeps a late acquire of that id from being granted: for an id
-- whose acquire was never answered and may still be pending.
-- Without it, locks cannot be released.
--
-- KEYS[1], ARGV[1], ARGV[2] and returns as native_release    KEYS[2] as in native_acquire    ARGV[3] for how long, in ms
local function release()
  -- include native_held
  local news = '1'
  -- include native_free
end
local code = release()
if code == -3 then return code end
-- Where SyncGuard counts, a late acquire is refused, and the key is not made a hash.
if code == -1 and redis.call('EXISTS', KEYS[1]) == 0 and KEYS[2] and redis.call('EXISTS', KEYS[2]) == 1 then return code end
-- include native_time
local kind, bury_until = 't', now + ARGV[3]
-- include native_bury
return code
