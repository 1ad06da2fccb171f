-- Releases the lock of an id as native_release does, for a holder whose proof says that the lease has not expired: so
-- the clock is not read, which is a quarter of a release. No other id was granted since, or the state would name it.
-- Without it, locks cannot be released.
--
-- KEYS, ARGV and returns as native_release
local state = redis.call('HGET', KEYS[1], 's')
if state and #state == 52 and string.sub(state, 29, 50) == ARGV[1] then
  local news = '1'
  -- include native_free
end
-- include native_held
