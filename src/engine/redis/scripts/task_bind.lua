-- Puts a record under a lock, or raises its fence, and reads it.
-- Without it, tasks cannot be bound to a lock.
--
-- KEYS[1] the record's hash
-- ARGV[1] channel    ARGV[2..4] authority, lock key and fence of the token
-- ARGV[5] the incarnation that is meant, or '' for any    ARGV[6] one for a record that has none of its own
--
-- returns as task_get, the guard and the incarnation as they are now; another incarnation's record is absent;
--         {-2, highest}, {-4, authority, lock key, fence}   refused by the record's guard
local key, channel, authority, fence_key, fence = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
-- include task_read
if state == 'bad' then return -3 end
if state ~= 'live' then return nil end
if ARGV[5] ~= '' then
  -- include task_incarnation
  -- Its own: an earlier copy of this request gave it that.
  if incarnation ~= ARGV[5] and incarnation ~= ARGV[6] then return nil end
end
-- include task_fence
if fields[6] ~= fence or not fields[4] then
  fields[4] = fields[4] or ARGV[6]
  redis.call('HSET', key, 'fence', fence, 'fence_authority', authority, 'fence_key', fence_key, 'incarnation', fields[4])
  fields[6], fields[7], fields[8] = fence, authority, fence_key
  -- include task_changed
end
-- include task_answer
return answer
