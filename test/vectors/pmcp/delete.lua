-- KEYS[1] = task hash key
-- KEYS[2] = owner index sorted set key
-- ARGV[1] = task_id (member to remove from sorted set)
-- Returns: 1 if key existed and was deleted, 0 otherwise

local existed = redis.call('EXISTS', KEYS[1])
if existed == 1 then
    redis.call('DEL', KEYS[1])
    redis.call('ZREM', KEYS[2], ARGV[1])
    return 1
end
return 0
