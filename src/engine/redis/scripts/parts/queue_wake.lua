-- Wakes one process that waits for the queue: the one that claimed last, which is most likely alive, and listens. It
-- is registered again by its next claim that finds nothing. On a cluster with global channels (wake_mode 'c') the
-- number of receivers is unknown. pcall: a user without rights to the channel can still write; workers poll.
if redis.call('ZCARD', waiters) > 0 and redis.call('HGET', settings, 'paused') ~= '1' then
  for _ = 1, 100 do
    local process = redis.call('ZPOPMIN', waiters)[1]
    if not process then break end
    local received
    if wake_mode == 's' then
      received = redis.pcall('SPUBLISH', wake_prefix .. process, '1')
    else
      received = redis.pcall('PUBLISH', wake_prefix .. process, '1')
    end
    if received ~= 0 or wake_mode == 'c' then break end
  end
end
