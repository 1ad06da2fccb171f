-- Gives the task a lease, an attempt and a fence, if it can have one: it may have no attempt left, be too old, or
-- have used up its fences; then it is exhausted. granted: when the lease ends, or false. The caller takes it out of its old set.
local lock_key = lock_prefix .. task
if flags % 2 == 1 then lock_key = redis.call('HGET', key, 'queue_lock') or lock_key end
local same_lock = fields[7] == fields[4] and fields[8] == lock_key
local highest = math.max(counter, floor, same_lock and tonumber(fields[6]) or 0)
granted = attempts < max_attempts and fails > now and highest < 900000000000000
if granted then
  counter, attempts, place = highest + 1, attempts + 1, 2
  local lease_end = now + (attempt_limit > 0 and math.min(lease, attempt_limit) or lease)
  local fence, times = string.format('%015d', counter), string.format('%016d%016d%010d', now, lease_end, attempts)
  queue = '2' .. string.sub(queue, 2, 43) .. times .. string.sub(queue, 86, 101) .. '0' .. fence
    .. string.sub(queue, 118, worker_at - 1) .. worker
  if same_lock then
    redis.call('HSET', key, 'fence', fence, 'queue', queue)
  else
    redis.call('HSET', key, 'fence', fence, 'queue', queue, 'fence_authority', fields[4], 'fence_key', lock_key)
    fields[7], fields[8] = fields[4], lock_key
  end
  fields[6], fields[9] = fence, queue
  redis.call('ZADD', leases, string.sub(times, 17, 32), task)
  if group then redis.call('ZADD', settings .. ':limits', '0', group .. task) end
  granted = lease_end
else
  -- include queue_times
  sequence, lease_end, place = redis.call('HINCRBY', settings, 'sequence', 1), 0, 3
  redis.call('ZADD', exhausted, sequence, task)
  -- include queue_pack
  redis.call('HSET', key, 'queue', queue)
  fields[9] = queue
end
local channel = channel_prefix .. task
-- include task_changed
