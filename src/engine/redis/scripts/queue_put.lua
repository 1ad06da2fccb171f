-- Writes a record that may be in a queue, and takes it out of that on request.
-- Without it, tasks cannot be changed.
--
-- KEYS[1..8] as in parts/queue_names.lua    KEYS[9] the record's hash
-- ARGV[1] data    ARGV[2] expires_at in seconds, or ''    ARGV[3] task    ARGV[4] score
-- ARGV[5] when Redis must drop it, in ms    ARGV[6] the request's id    ARGV[7] channel
-- ARGV[8] '1': also if there is none
-- ARGV[9..11] authority, lock key and fence of the token; '' for none
-- ARGV[12] expected version, '' for any    ARGV[13] expected incarnation, '' for any
-- ARGV[14] '1': it leaves the queue    ARGV[15] when it expires, in ms, or ''
-- ARGV[16] the part of a record's key before the task    ARGV[17] channel prefix    ARGV[18] kind of channels
-- ARGV[19] how many dead letters the queue keeps if it leaves that as one, 0 for any number; '' if it does not
--
-- returns as task_put_if_version, with or without an expected version
-- include queue_names
local key, data, expires_at, task, score = KEYS[9], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local until_ms, id, channel, may_create = ARGV[5], ARGV[6], ARGV[7], ARGV[8]
local authority, fence_key, fence = ARGV[9], ARGV[10], ARGV[11]
local hash_prefix, wake_prefix, wake_mode = ARGV[16], ARGV[17], ARGV[18]
local origin, queue
-- include task_read
if state == 'bad' then return {-3, 0} end
local new_version, incarnation = 1, id
local left, was, dies, freed = false, 4, false, nil
if state == 'live' then
  -- include task_own_write
  if written then return {1, written, fields[4]} end
  -- include task_fence
  if ARGV[12] ~= '' then
    -- include task_incarnation
    if version ~= tonumber(ARGV[12]) or (ARGV[13] ~= '' and ARGV[13] ~= incarnation) then
      return {0, version, incarnation}
    end
  end
  new_version, incarnation = version + 1, fields[4] or id
  queue = fields[10]
  -- include queue_known
  if queue then
    was = string.byte(queue) - 48
    if was ~= 4 and was ~= 6 and ARGV[14] == '1' then
      -- include queue_place
      -- include queue_leave
      dies = ARGV[19] ~= ''
      place = dies and 6 or 4
      -- include queue_finished
      if group then
        redis.call('HDEL', settings .. ':keys', task)
        if was == 1 or was == 2 then freed = group end
      end
    end
    left = string.byte(queue) == 52 or string.byte(queue) == 54
  end
else
  if ARGV[12] ~= '' or may_create ~= '1' then
    local meant = ARGV[13]
    -- include queue_made_by
    if made then return {1, made, meant} end
    return {-1, 0}
  end
  fields = {}
end
-- include task_write
if left then
  local ends_at = ARGV[15]
  redis.call('ZADD', finished, ends_at ~= '' and ends_at or 'inf', task)
  -- include queue_made
  local channel_prefix = string.sub(channel, 1, #channel - #task)
  if dies then
    local max_dead = tonumber(ARGV[19])
    -- include queue_dead
  end
  if freed then
    local group = freed
    -- include queue_release
  end
  if redis.call('EXISTS', ready, delayed, leases, exhausted, settings .. ':parked') == 0 then
    -- include queue_idle
  elseif was == 2 then
    -- A limit may have counted its lease.
    -- include queue_wake
  end
end
return {1, new_version, incarnation}
