-- Takes the task out of the set of its `place`. was: its place before this call, or 1 if it was let go.
if place == 0 then
  redis.call('ZREM', delayed, task)
elseif place == 1 then
  redis.call('ZREM', ready, task)
elseif place == 2 then
  redis.call('ZREM', leases, task)
  if group then redis.call('ZREM', settings .. ':limits', group .. task) end
elseif place == 3 then
  redis.call('ZREM', exhausted, task)
elseif place == 5 then
  local parked = group .. struct.pack('>I7', string.sub(queue, 28, 43) - string.sub(queue, 118, 123) * 4398046511104
    + 4503599627370496) .. task
  if redis.call('ZREM', settings .. ':parked', parked) == 0 then
    -- It was let go, but could not be reached (queue_release): it has the turn of its key, as a ready one has.
    redis.call('ZREM', delayed, task)
    was = 1
  end
end
