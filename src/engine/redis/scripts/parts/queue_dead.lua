-- The task is a dead letter of its queue, which keeps at most max_dead of them; 0: any number. The oldest of those that
-- are too many are removed, a few each time.
redis.call('ZADD', settings .. ':dead', now, task)
if max_dead > 0 then
  local over = math.min(redis.call('ZCARD', settings .. ':dead') - max_dead, 10)
  if over > 0 then
    local this, oldest = task, redis.call('ZRANGE', settings .. ':dead', 0, over)
    for i = 1, #oldest do
      local task = oldest[i]
      if task ~= this and over > 0 then
        local key = hash_prefix .. task
        local queue = redis.pcall('HGET', key, 'queue')
        if type(queue) == 'string' and string.byte(queue) % 48 == 6 then
          redis.call('DEL', key)
          redis.call('ZREM', index, task)
          redis.call('ZREM', finished, task)
          local channel = channel_prefix .. task
          -- include task_changed
        end
        redis.call('ZREM', settings .. ':dead', task)
        over = over - 1
      end
    end
  end
end
