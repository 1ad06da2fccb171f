-- Claims one task of a queue.
-- Without it, tasks cannot be claimed.
--
-- KEYS[1..8] as in parts/queue_names.lua    KEYS[9] the record's hash
-- ARGV[1] task    ARGV[2] the part of its lock key before the task    ARGV[3] the request's id
-- ARGV[4] lowest fence - 1    ARGV[5] worker    ARGV[6] lease in ms    ARGV[7] the part of its key before the task
-- ARGV[8] the same of its channel
--
-- returns {1, version, data, incarnation, origin, fence, authority, lock key, queue}   claimed
--         {0, the same}   it cannot be claimed, for its state or because the queue has as many leases as it may have
--         {-1}   there is none    {-3}   the value is not a record
-- include queue_names
local task, lock_prefix, id, floor, worker, lease = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5], tonumber(ARGV[6])
local hash_prefix, channel_prefix = ARGV[7], ARGV[8]
-- include server_time
local granted, has_expired = false, false
-- include queue_when_full
while true do
  -- include queue_fields
  if failed then return failed end
  if state == 'bad' then return {-3} end
  if state ~= 'live' then return {-1} end
  local is_refused = false
  if queue then
    -- include queue_place
    -- include queue_terms
    -- include queue_times
    -- By an earlier copy of this request, and no other was granted a claim since: that one has another fence.
    granted = place == 2 and redis.call('HGET', key, 'claim') == id .. ' ' .. (fields[6] or '')
    -- include queue_leased
    -- Expired leases count until a claim removes them.
    is_refused = not granted and not has_expired and group and group_leased >= group_limit
      and redis.call('ZCOUNT', leases, '-inf', now) > 0
    if not granted and not is_refused then
      local was = place
      if place == 2 and lease_end <= now then
        deaths = deaths + 1
        redis.call('ZREM', leases, task)
        if group then
          redis.call('ZREM', settings .. ':limits', group .. task)
          group_leased = group_leased - 1
        end
        -- include queue_behind
        -- include queue_pack
        redis.call('HSET', key, 'queue', queue)
        fields[9] = queue
      end
      if place == 0 or place == 1 or place == 5 then
        local max_leased = redis.call('HGET', settings, 'max_leased')
        local has_room = not max_leased
          or redis.call('ZCOUNT', leases, string.format('(%.0f', now), 'inf') < tonumber(max_leased)
        if (has_room and not (group and group_leased >= group_limit)) or attempts >= max_attempts or fails <= now then
          -- include queue_leave
          -- include queue_grant
          if granted then
            redis.call('HSET', key, 'claim', id .. ' ' .. fields[6])
            local look_by = granted
            -- include queue_look
          else
            redis.call('HDEL', settings, 'look')
          end
        end
      elseif was ~= place then
        redis.call('HDEL', settings, 'look')
      end
      -- There is room for another one of its key: its lease has expired, it is exhausted, or tasks of a lower limit let
      -- one go at a time.
      if group and ((granted and group_leased + 1 < group_limit)
        or (not granted and (was == 2 or was == 1) and was ~= place)) then
        -- include queue_release
        fields[9] = redis.call('HGET', key, 'queue')
      end
    end
  end
  if not is_refused then
    -- include task_incarnation
    return {granted and 1 or 0, version, fields[2], incarnation, fields[5], fields[6], fields[7], fields[8], fields[9]}
  end
  local moved, passes, searched, is_behind = 0, 1, 0, false
  -- include queue_due
  has_expired = true
  redis.call('HDEL', settings, 'look')
end
