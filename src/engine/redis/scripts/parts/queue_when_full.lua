-- A server that is full refuses a script's first write if that needs memory, but no further ones, and never HDEL. What
-- is being worked on must go on there: nothing else makes room.
redis.call('HDEL', settings, '')
