-- Removes a record.
-- Without it, tasks cannot be removed.
--
-- KEYS[1..8] as in parts/queue_names.lua    KEYS[9] the record's hash
-- ARGV[1] task    ARGV[2] expected version, '' for any    ARGV[3] expected incarnation, '' for any
-- ARGV[4] channel    ARGV[8] the part of a record's key before the task
-- ARGV[5..7] authority, lock key and fence of the token; '' for none
-- ARGV[9] the part of a process' channel before its name    ARGV[10] the kind of these channels
--
-- returns 1   removed
--         0   there is none
--         {-5, version, incarnation}   it is another version, or another record
--         {-2, highest}, {-4, authority, lock key, fence}   refused by the record's guard
--         {-3, 0}   the value is not a record, and a version was expected; else it is removed too
-- include queue_names
local key, task, channel, hash_prefix = KEYS[9], ARGV[1], ARGV[4], ARGV[8]
local authority, fence_key, fence = ARGV[5], ARGV[6], ARGV[7]
local wake_prefix, wake_mode = ARGV[9], ARGV[10]
-- include task_read
if state == 'live' then
  -- include task_fence
  if ARGV[2] ~= '' then
    -- include task_incarnation
    if version ~= tonumber(ARGV[2]) or (ARGV[3] ~= '' and ARGV[3] ~= incarnation) then
      return {-5, version, incarnation}
    end
  end
elseif state == 'bad' and (fence ~= '' or ARGV[2] ~= '') then
  return {-3, 0}
end
redis.call('ZREM', index, task)
if state ~= 'absent' then redis.call('DEL', key) end
local queue = fields[10]
-- include queue_known
if queue then
  -- include queue_place
  local was = place
  -- include queue_leave
  if place == 4 or place == 6 then redis.call('ZREM', finished, task) end
  if place == 6 then redis.call('ZREM', settings .. ':dead', task) end
  if group then
    redis.call('HDEL', settings .. ':keys', task)
    if was == 1 or was == 2 then
      local channel_prefix = string.sub(channel, 1, #channel - #task)
      -- include queue_release
    end
  end
  if redis.call('EXISTS', ready, delayed, leases, exhausted, settings .. ':parked') == 0 then
    -- include queue_idle
  elseif place == 2 then
    -- A limit may have counted its lease.
    -- include queue_wake
  end
end
if state == 'absent' then return 0 end
if state == 'expired' then return 0 end
-- include task_changed
return 1
