-- The state of a held lock. Changes nothing.
-- Without it, locks cannot be looked up.
--
-- KEYS[1] lock key
--
-- returns the state, and behind it field u if the state refers to it; nil if there is no live lock;
--         -3 if the value at the lock key is not a lock
local lock_key = KEYS[1]
local state = redis.call('HGET', lock_key, 's')
if not state then return redis.call('EXISTS', lock_key) == 1 and -3 or nil end
if #state == 16 then return nil end
if #state ~= 52 then return -3 end
-- include native_time
if now >= struct.unpack('>I6', state, 17) then return nil end
-- include native_named
return state
