-- Releases the lock of an id, and publishes that on its channel.
-- Without it, locks cannot be released.
--
-- KEYS[1] lock key    ARGV[1] lock id    ARGV[2] channel; a sharded one has the name of the lock key
--
-- returns 1 released   0 another owner   -1 absent   -2 expired   -3 not a lock
-- include native_held
local news = '1'
-- include native_free
