-- Writes `state`, of a lock that stays, ends or is taken over: also on a server that is full. That refuses HSET, but
-- not in a script that has written already, and HDEL is never refused.
local written = redis.pcall('HSET', KEYS[1], 's', state)
if type(written) == 'table' then
  redis.call('HDEL', KEYS[1], '')
  redis.call('HSET', KEYS[1], 's', state)
end
