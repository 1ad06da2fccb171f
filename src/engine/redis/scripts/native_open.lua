-- The id of this store, created by the first client. The marker has another type than the documented layout's
-- authority of the same name, so that neither layout opens a prefix of the other.
-- Without it, locks cannot be opened.
--
-- KEYS[1] marker    ARGV[1] an id for a store that has none
--
-- returns the id
local id = redis.call('HGET', KEYS[1], 'native')
if id then return id end
redis.call('HSET', KEYS[1], 'native', ARGV[1])
return ARGV[1]
