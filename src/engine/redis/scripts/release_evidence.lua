-- The evidence whether a release that was sent more than once released the lock. Changes nothing.
-- Without it, locks cannot be released.
--
-- KEYS[1] index key of the id    KEYS[2] authority    KEYS[3] fence counter, if the key is known
--
-- returns {1 or 0: the lock was broken by an operator, authority or '', counter or ''}
local counter = KEYS[3] and redis.call('GET', KEYS[3]) or ''
return {redis.call('GET', KEYS[1]) == '\255' and 1 or 0, redis.call('GET', KEYS[2]) or '', counter or ''}
