-- Releases the lock of an id, and publishes that on its channel.
--
-- KEYS[1] lock key    ARGV[1] lock id    ARGV[2] channel    ARGV[3] if it is a sharded one
--
-- returns 1 released   0 another owner   -1 absent   -2 expired   -3 not a lock
local sharded = ARGV[3]
-- include native_held
-- include native_free
