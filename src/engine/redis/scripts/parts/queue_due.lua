-- Does what the time has come for, at most a hundred of each: leases that have expired (passes 1), and delays that are
-- over (2). moved: how many tasks it made ready, parked or exhausted. is_behind: some of those are left whose time had
-- come before the caller's search, which has lasted `searched` ms.
for pass = 1, passes do
  local set = pass == 1 and leases or delayed
  local late = redis.call('ZRANGE', set, '-inf', now, 'BYSCORE', 'LIMIT', 0, 100)
  for i = 1, #late do
    local task = late[i]
    local key = hash_prefix .. task
    local queue = redis.pcall('HGET', key, 'queue')
    local is_missing, failed = not queue and redis.call('EXISTS', key) == 0, nil
    if type(queue) == 'table' and not string.find(queue.err, '^WRONGTYPE') then failed = queue end
    -- include queue_unreached
    if failed then
      if i > 1 then redis.call('ZREM', set, unpack(late, 1, i - 1)) end
      return failed
    end
    if type(queue) ~= 'string' then queue = nil end
    -- include queue_known
    if queue then
      -- include queue_place
      -- include queue_terms
      -- include queue_times
      -- A ready, an exhausted or a parked one was put aside, because it could not be read.
      if place == (pass == 1 and 2 or 0) or (pass == 2 and (place == 1 or place == 3 or place == 5)) then
        if pass == 1 then
          deaths = deaths + 1
          if group then redis.call('ZREM', settings .. ':limits', group .. task) end
        end
        local was = place
        -- include queue_behind
        -- include queue_pack
        redis.call('HSET', key, 'queue', queue)
        moved = moved + 1
        local channel = channel_prefix .. task
        -- include task_changed
        -- A parked one that was let go, but could not be reached (queue_release), had the turn of its key.
        if group and (pass == 1 or (was == 5 and place == 3)) then
          -- include queue_release
        end
      end
    else
      -- It is gone, or other software has made another one of its name, which is in no queue.
      if is_missing then redis.call('ZREM', index, task) end
      -- include queue_stale
    end
  end
  if #late > 0 then redis.call('ZREM', set, unpack(late)) end
  if #late == 100 then
    local left = redis.call('ZRANGE', set, 0, 0, 'WITHSCORES')[2]
    is_behind = is_behind or (left and tonumber(left) <= now - searched)
  end
end
