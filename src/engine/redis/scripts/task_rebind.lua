-- Puts a record under a lock, or under none, whatever guarded it or only if a lock of one authority did; and reads it.
-- Without it, tasks cannot be bound to a lock.
--
-- KEYS[1] the record's hash
-- ARGV[1] channel    ARGV[2..4] authority, lock key and fence of the token; '' for none
-- ARGV[5] the authority of the guard that is to be replaced; nothing: of any, and where there is none
--
-- returns as task_get, the guard as it is now. An incomplete guard is replaced too.
local key, channel, authority, fence_key, fence = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
-- include server_time
-- include task_fields
-- include task_state
if state == 'bad' then return -3 end
if state ~= 'live' then return nil end
if not ARGV[5] or fields[7] == ARGV[5] then
  if fence ~= '' then
    redis.call('HSET', key, 'fence', fence, 'fence_authority', authority, 'fence_key', fence_key)
    fields[6], fields[7], fields[8] = fence, authority, fence_key
  else
    redis.call('HDEL', key, 'fence', 'fence_authority', 'fence_key')
    fields[6], fields[7], fields[8] = false, false, false
  end
  -- include task_changed
end
-- include task_answer
return answer
