-- Notifies the watchers. pcall: a user without rights to the channel can still write; watchers poll.
redis.pcall('PUBLISH', channel, '1')
