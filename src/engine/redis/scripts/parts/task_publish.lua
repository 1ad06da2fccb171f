-- Publishes `news`. A sharded channel has the name of the record. pcall: a user without rights to the channel can still
-- write; watchers poll.
if channel == key then redis.pcall('SPUBLISH', channel, news) else redis.pcall('PUBLISH', channel, news) end
