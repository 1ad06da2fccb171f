-- Claims the next tasks and adds to `answer`, which has n parts: 1 if the queue is paused; ms until it is worth
-- looking again, -1 for never; 1 if a thread of this process that waits should be woken; how many were claimed; then
-- each claimed and each exhausted record, in nine parts.
--
-- given: call, a number that rises with each call of this process; memory, the key under which the claims of this
-- process and slot are remembered; worker, lease, limit, floor, lock_prefix, channel_prefix; searched, for how many ms the
-- caller has repeated its claim because the answers ended early; process, the name of this one; and waiting: '' it does not wait for this queue; '1' it may wait if nothing is found; '2' it may be registered as one
-- that waits; '3' the same, and further threads of it wait.
local head = n
n = n + 4
local known = redis.call('GET', memory)
local taken, again, paused, more_ready = 0, -1, false, false
local last_call = known and struct.unpack('>I7', known)
if known and last_call >= call then
  -- A copy of a request whose answer was lost; or one that was overtaken by later requests, and claims nothing.
  known = last_call == call and cmsgpack.unpack(string.sub(known, 8)) or {}
  for i = 1, #known, 2 do
    local task = known[i]
    -- include queue_fields
    if failed then return failed end
    if queue and fields[4] .. ' ' .. (fields[6] or '') == known[i + 1] and string.byte(queue) == 50 then
      -- include queue_listed
      taken = taken + 1
    end
  end
  again = 0
else
  local meta = redis.call('HMGET', settings, 'paused', 'max_leased', 'look')
  local look = meta[3] and tonumber(meta[3])
  local look_by = look or math.huge
  local upkeep, moved, dead_left, is_behind = not look or look <= now, 0, false, false
  if upkeep then
    -- include queue_when_full
    -- include queue_upkeep
    dead_left = #dead == most
  end
  paused = meta[1] == '1'
  -- Those that are left may come before the ready ones. The answer is that it is worth looking again at once.
  local room = (paused or is_behind) and 0 or limit
  if room > 0 and meta[2] then room = math.min(room, meta[2] - redis.call('ZCARD', leases)) end
  if room <= 0 then
    -- include queue_when_full
  end
  local passed, grants = 0, {}
  while taken < room and passed < 100 do
    local first = room == 1 and redis.call('ZPOPMIN', ready) or redis.call('ZPOPMIN', ready, room - taken)
    if #first == 0 then break end
    for i = 1, #first, 2 do
      local task = first[i]
      -- include queue_fields
      if failed then
        for j = i, #first, 2 do redis.call('ZADD', ready, first[j + 1], first[j]) end
        if taken == 0 then return failed end
        room = taken
        break
      end
      local granted, released_before = false, released
      if queue then
        -- include queue_place
        if place == 1 then
          -- include queue_terms
          -- include queue_leased
          if group and group_leased >= group_limit and attempts < max_attempts and fails > now then
            -- include queue_times
            -- include queue_park
            -- include queue_pack
            redis.call('HSET', key, 'queue', queue)
            local channel = channel_prefix .. task
            -- include task_changed
          else
            -- include queue_grant
            if granted then
              taken, look_by = taken + 1, math.min(look_by, granted)
              -- The incarnation too: the fences of a record that is removed and created anew begin again.
              grants[2 * taken - 1], grants[2 * taken] = task, fields[4] .. ' ' .. fields[6]
              -- include queue_listed
            else
              upkeep = true
            end
            -- There may be room for more of its key, where tasks of a lower limit let one go at a time.
            if group and (not granted or group_leased + 1 < group_limit) then
              -- include queue_release
            end
          end
        end
      elseif state == 'absent' or state == 'expired' then
        -- Other software removed it, or let it expire.
        redis.call('ZREM', index, task)
        -- include queue_stale
      elseif not fields[9] or #fields[9] < 98 then
        -- Other software has made another one of its name, which is in no queue.
        -- include queue_stale
      else
        -- It cannot be read: other software may repair it. It is looked at again in ten minutes.
        redis.call('ZADD', delayed, now + 600000, task)
        upkeep = true
        local group = redis.call('HGET', settings .. ':keys', task)
        if group then
          -- include queue_release
        end
      end
      if not granted then passed = passed + 1 end
      if released > released_before and i + 2 <= #first then
        -- One that was parked may come before the others.
        for j = i + 2, #first, 2 do redis.call('ZADD', ready, first[j + 1], first[j]) end
        break
      end
    end
  end
  if taken > 0 then redis.call('SET', memory, struct.pack('>I7', call) .. cmsgpack.pack(grants), 'PX', '60000') end
  if upkeep or taken == 0 then
    local tired = redis.call('ZRANGE', exhausted, 0, 9)
    -- Those that the caller cannot end, because it cannot read them, must not hide the others.
    local are_more = #tired == 10 and redis.call('ZCARD', exhausted) > 10
    for i = 1, #tired do
      local task = tired[i]
      -- include queue_fields
      if queue and string.byte(queue) == 51 then
        -- include queue_listed
        if are_more then
          redis.call('ZADD', exhausted, redis.call('HINCRBY', settings, 'sequence', 1), task)
        end
      elseif not failed then
        redis.call('ZREM', exhausted, task)
        if state == 'absent' or state == 'expired' then
          redis.call('ZREM', index, task)
          -- include queue_stale
        elseif not queue and fields[9] and #fields[9] >= 98 and string.byte(fields[9]) % 48 == 3 then
          -- As a ready one that cannot be read.
          redis.call('ZADD', delayed, now + 600000, task)
        end
      end
    end
    local lease_ends = redis.call('ZRANGE', leases, 0, 0, 'WITHSCORES')[2]
    local due_next = redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')[2]
    look_by = math.min(lease_ends and tonumber(lease_ends) or math.huge, due_next and tonumber(due_next) or math.huge)
    if passed >= 100 then again = 0 elseif look_by < math.huge then again = math.max(look_by - now, 0) end
    if #tired > 0 then
      look_by = math.huge
    elseif look_by < math.huge then
      local expires = redis.call('ZRANGE', finished, 0, 0, 'WITHSCORES')[2]
      if dead_left then
        look_by = now
      elseif expires then
        look_by = math.min(look_by, math.max(tonumber(expires), now + 1000))
      end
    elseif taken == 0 and redis.call('EXISTS', ready, settings .. ':parked') == 0 and (dead_left
      or redis.call('HGET', settings, 'sequence')) then
      -- include queue_idle
    end
  end
  -- Without a time, each claim does the upkeep.
  if look_by == math.huge then
    if look then redis.call('HDEL', settings, 'look') end
  elseif upkeep or taken == 0 then
    if look ~= look_by then redis.call('HSET', settings, 'look', look_by) end
  elseif look_by < look then
    -- A parked one that could not be reached may have set an earlier one.
    -- include queue_look
  end
  if taken == 0 or waiting == '3' then
    if waiting ~= '' then
      redis.call('ZADD', waiters, -now, process)
      redis.call('PEXPIREAT', waiters, now + 300000)
      -- Those of processes that are gone: one that waits registers anew every second.
      local gone = redis.call('ZRANGE', waiters, string.format('(%.0f', 300000 - now), '+inf', 'BYSCORE', 'LIMIT', 0, 100)
      if #gone > 0 then redis.call('ZREM', waiters, unpack(gone)) end
    end
  elseif waiting == '2' then
    redis.call('ZREM', waiters, process)
  end
  if taken > 0 and (moved + released > 1 or searched > 0 or waiting == '2' or waiting == '3')
    and redis.call('EXISTS', ready) == 1 then
    more_ready = waiting == '3'
    if not more_ready then
      -- include queue_wake
    end
  end
end
answer[head + 1], answer[head + 2], answer[head + 3], answer[head + 4] =
  paused and 1 or 0, paused and -1 or again, more_ready and 1 or 0, taken
