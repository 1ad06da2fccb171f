-- KEYS[1] = task hash key
-- KEYS[2] = owner index sorted set key
-- ARGV[1] = data (JSON string)
-- ARGV[2] = expected_version
-- ARGV[3] = expires_at epoch seconds (or "" if no TTL)
-- ARGV[4] = task_id (member in sorted set)
-- ARGV[5] = creation timestamp score (for sorted set)
-- Returns: {status, value}
--   {1, new_version} on success
--   {0, actual_version} on version mismatch
--   {-1, 0} if key does not exist

local current_version = redis.call('HGET', KEYS[1], 'version')
if not current_version then
    return {-1, 0}
end

local expected = tonumber(ARGV[2])
local actual = tonumber(current_version)
if actual ~= expected then
    return {0, actual}
end

local new_version = actual + 1
redis.call('HSET', KEYS[1], 'version', tostring(new_version), 'data', ARGV[1])

if ARGV[3] ~= '' then
    redis.call('HSET', KEYS[1], 'expires_at', ARGV[3])
    redis.call('EXPIREAT', KEYS[1], tonumber(ARGV[3]))
else
    redis.call('HDEL', KEYS[1], 'expires_at')
    redis.call('PERSIST', KEYS[1])
end

-- Maintain sorted set index
redis.call('ZADD', KEYS[2], 'NX', tonumber(ARGV[5]), ARGV[4])

return {1, new_version}
