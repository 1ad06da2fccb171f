-- Puts a record under a lock, or raises its fence, and reads it.
--
-- KEYS[1] the record's hash
-- ARGV[1] channel    ARGV[2..4] authority, lock key and fence of the token
--
-- returns as task_get, the guard as it is now;
--         {-2, highest}, {-4, authority, lock key, fence}   refused by the record's guard
local key, channel, authority, fence_key, fence = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
-- include task_read
if state == 'bad' then return -3 end
if state ~= 'live' then return nil end
-- include task_fence
if fields[6] ~= fence then
  redis.call('HSET', key, 'fence', fence, 'fence_authority', authority, 'fence_key', fence_key)
  fields[6], fields[7], fields[8] = fence, authority, fence_key
  -- include task_changed
end
-- include task_answer
return answer
