-- Deletes the lock that find_held found, and publishes that; ends the script with 1.
-- ARGV[2] what a channel's name has before the lock key
redis.call('DEL', lock_key, KEYS[1])
-- pcall: a user without rights to the channel releases all the same, and waiters poll.
redis.pcall('PUBLISH', ARGV[2] .. lock_key, '1')
return 1
