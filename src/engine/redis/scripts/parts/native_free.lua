-- Shrinks the lock that native_held found to its counter, and publishes `news`; ends the script with 1.
-- ARGV[2] channel; a sharded one has the name of the lock key
state = string.sub(state, 1, 16)
-- include native_keep
-- pcall: a user without rights to the channel can still release; waiters poll.
if ARGV[2] == KEYS[1] then redis.pcall('SPUBLISH', ARGV[2], news) else redis.pcall('PUBLISH', ARGV[2], news) end
return 1
