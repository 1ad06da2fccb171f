-- Gives the task a lease, an attempt and a fence, if it can have one: it may have no attempt left, be too old, or
-- have used up its fences; then it is exhausted. granted: which of the two. The caller takes it out of its old set.
local lock_key = lock_prefix .. task
if string.byte(queue, 90) % 2 == 1 then lock_key = redis.call('HGET', key, 'queue_lock') or lock_key end
local same_lock = fields[7] == fields[4] and fields[8] == lock_key
local highest = math.max(counter, floor, same_lock and tonumber(fields[6]) or 0)
granted = attempts < max_attempts and fails > now and highest < 900000000000000
if granted then
  counter, attempts, place, claimed = highest + 1, attempts + 1, 2, now
  lease_end = now + (attempt_limit > 0 and math.min(lease, attempt_limit) or lease)
  queue = struct.pack('>BI4I4I7I7I7I7I7I7', place, attempts, deaths, due, fails, sequence, claimed, lease_end, counter)
    .. string.sub(queue, 52, group and 102 + #group or 98) .. worker
  local fence = string.format('%015d', counter)
  if same_lock then
    redis.call('HSET', key, 'fence', fence, 'queue', queue)
  else
    redis.call('HSET', key, 'fence', fence, 'queue', queue, 'fence_authority', fields[4], 'fence_key', lock_key)
    fields[7], fields[8] = fields[4], lock_key
  end
  fields[6], fields[9] = fence, queue
  redis.call('ZADD', leases, string.format('%d', lease_end), task)
  if group then redis.call('ZADD', settings .. ':limits', '0', group .. task) end
else
  sequence, lease_end, place = redis.call('HINCRBY', settings, 'sequence', 1), 0, 3
  redis.call('ZADD', exhausted, sequence, task)
  -- include queue_pack
  redis.call('HSET', key, 'queue', queue)
  fields[9] = queue
end
local channel = channel_prefix .. task
-- include task_changed
