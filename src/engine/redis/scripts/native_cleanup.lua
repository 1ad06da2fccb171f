-- Shrinks a lock that expired over 2000 ms ago to its counter, and deletes ids that need not be remembered any more.
-- Without it, locks cannot be cleaned up.
--
-- KEYS[1] lock key
--
-- returns 1 shrunk   0 nothing to shrink   -3 the value at the lock key is not a lock
local fields = redis.call('HMGET', KEYS[1], 's', 'x')
local state, sweep_at = fields[1], fields[2]
if not state then return redis.call('EXISTS', KEYS[1]) == 1 and -3 or 0 end
if #state ~= 16 and #state ~= 52 then return -3 end
-- include native_time
-- include native_sweep
local flags = string.byte(state)
local swept = flags % 2 == 1 and not dead
local expired = #state == 52 and struct.unpack('>I6', state, 17) + 2001 <= now
if not swept and not expired then return 0 end
if expired then state = string.sub(state, 1, 16) end
state = string.char(swept and flags - 1 or flags) .. string.sub(state, 2)
-- include native_keep
return expired and 1 or 0
