-- Tells the watchers. pcall: a user without rights to the channel writes all the same, and watchers poll.
redis.pcall('PUBLISH', channel, '1')
