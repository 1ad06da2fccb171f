-- Puts the task behind the others of its priority, or among the exhausted ones if it may not be claimed any more.
-- The caller takes it out of the set where it was.
sequence, lease_end = redis.call('HINCRBY', settings, 'sequence', 1), 0
if attempts >= max_attempts or fails <= now then
  place = 3
  redis.call('ZADD', exhausted, sequence, task)
else
  -- include queue_ready
end
