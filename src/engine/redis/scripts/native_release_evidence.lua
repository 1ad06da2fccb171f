-- The evidence whether a release that was sent more than once released the lock. Changes nothing.
-- Without it, locks cannot be released.
--
-- KEYS[1] lock key    ARGV[1] lock id
--
-- returns {1 or 0: the lock was broken by an operator, the state of the lock or ''}
local fields = redis.call('HMGET', KEYS[1], ARGV[1], 's')
return {fields[1] and string.sub(fields[1], 1, 1) == 'b' and 1 or 0, fields[2] or ''}
