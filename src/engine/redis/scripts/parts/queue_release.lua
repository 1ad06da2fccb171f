-- The first task that is parked under `group` is ready, at its old place: a task of the group that was leased or ready is
-- so no more. So while one is parked, another is leased or ready. Tasks that other software has removed are passed over, a
-- hundred of them in one call.
local passed = 0
repeat
  local first =
    redis.call('ZRANGEBYLEX', settings .. ':parked', '[' .. group, '(' .. group .. '\255', 'LIMIT', '0', '1')[1]
  local goes_on = false
  if first then
    redis.call('ZREM', settings .. ':parked', first)
    local task = string.sub(first, #group + 8)
    local key = hash_prefix .. task
    local queue = redis.pcall('HGET', key, 'queue')
    if type(queue) == 'string' and string.byte(queue) % 48 == 5 then
      redis.call('HSET', key, 'queue', string.char(string.byte(queue) - 4) .. string.sub(queue, 2))
      redis.call('ZADD', ready, string.format('%d', struct.unpack('>I7', first, #group + 1) - 4503599627370496), task)
      released = released + 1
      local channel = channel_prefix .. task
      -- include task_changed
    else
      local is_missing, failed = not queue and redis.call('EXISTS', key) == 0, nil
      if type(queue) == 'table' and not string.find(queue.err, '^WRONGTYPE') then failed = queue end
      -- include queue_unreached
      local is_gone = type(queue) ~= 'string'
      passed = passed + 1
      if failed or (is_gone and passed > 100 and redis.call('HGET', settings .. ':keys', task) == group) then
        -- The change that lets one go is made already. This one has the turn of the key until its time has come: in a
        -- second it can be reached, or queue_due finds that it is gone, and passes the next hundred.
        local look_by = failed and now + 1000 or now
        redis.call('ZADD', delayed, look_by, task)
        -- include queue_look
      else
        if is_missing then redis.call('ZREM', index, task) end
        if is_gone then redis.call('HDEL', settings .. ':keys', task) end
        goes_on = true
      end
    end
  end
until not goes_on
