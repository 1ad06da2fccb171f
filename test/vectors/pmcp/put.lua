-- KEYS[1] = task hash key
-- KEYS[2] = owner index sorted set key
-- ARGV[1] = data (JSON string)
-- ARGV[2] = expires_at epoch seconds (or "" if no TTL)
-- ARGV[3] = task_id (member in sorted set)
-- ARGV[4] = creation timestamp score (for sorted set)
-- Returns: new version number

local current_version = redis.call('HGET', KEYS[1], 'version')
local new_version
if current_version then
    new_version = tonumber(current_version) + 1
else
    new_version = 1
end

redis.call('HSET', KEYS[1], 'version', tostring(new_version), 'data', ARGV[1])

if ARGV[2] ~= '' then
    redis.call('HSET', KEYS[1], 'expires_at', ARGV[2])
    redis.call('EXPIREAT', KEYS[1], tonumber(ARGV[2]))
else
    redis.call('HDEL', KEYS[1], 'expires_at')
    redis.call('PERSIST', KEYS[1])
end

-- Maintain sorted set index (idempotent: ZADD NX only adds if not exists)
redis.call('ZADD', KEYS[2], 'NX', tonumber(ARGV[4]), ARGV[3])

return new_version
