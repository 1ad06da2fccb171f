-- Whether a key is locked. Changes nothing.
-- Without it, locks cannot be looked up.
--
-- KEYS[1] lock key
--
-- returns 1 yes   0 no   -3 the value at the lock key is not a lock record
local record = redis.call('GET', KEYS[1])
if not record then return 0 end
-- include read_record
if not owner then return -3 end
-- include server_time
-- include liveness
return live and 1 or 0
