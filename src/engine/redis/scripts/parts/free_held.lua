-- Deletes the lock that find_held found, and publishes `news`; ends the script with 1.
-- ARGV[2] the part of a channel's name before the lock key
redis.call('DEL', lock_key, KEYS[1])
-- pcall: a user without rights to the channel can still release; waiters poll.
redis.pcall('PUBLISH', ARGV[2] .. lock_key, news)
return 1
