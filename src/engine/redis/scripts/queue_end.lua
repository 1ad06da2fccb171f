-- Ends a lease: the task is finished, or claimable again. On request it then claims the next tasks.
-- Without it, tasks cannot be claimed.
--
-- KEYS[1..8] as in parts/queue_names.lua    KEYS[9] the record's hash
-- KEYS[10] where the claims of this process and slot are remembered; only with a claim
-- ARGV[1] task    ARGV[2] incarnation    ARGV[3] the request's id    ARGV[4] channel
-- ARGV[5..7] authority, lock key and fence of the token
-- ARGV[8] 'f' finished, 'd' the same as a dead letter, 'r' retried, 'g' given back
-- ARGV[9] delay in ms; with 'd' how many dead letters the queue keeps, 0 for any number    ARGV[10] expected version, '' for no write    ARGV[11] expected incarnation, '' for any
-- ARGV[12] data    ARGV[13] expires_at in seconds, or ''    ARGV[14] when the record expires, in ms, or ''
-- ARGV[15] the part of a record's key before the task    ARGV[16] channel prefix    ARGV[17] kind of channels
-- ARGV[18] without a write: expected version, '' for any
-- With a claim: ARGV[19] the part of a record's channel before the task    ARGV[20] the same of its lock key
-- ARGV[21] process    ARGV[22] whether it waits    ARGV[23] number of this call    ARGV[24] lowest fence - 1
-- ARGV[25] worker    ARGV[26] lease in ms    ARGV[27] limit
--
-- returns {1, version, incarnation, …}   written, by this copy of the request or an earlier one
--         {2, 0, '', …}                  ended, the same; … as parts/queue_take.lua says, with a claim
--         {0, version, incarnation}      it is another version, or another record
--         {-1, 0}                        there is none
--         {-2, highest}, {-4, authority, lock key, fence}   refused by the record's guard
--         {-3, 0}                        the value is not a record; it is not changed
--         {-7, 0}                        written by an earlier copy of the request, with a version that is forgotten
-- include queue_names
local key, task, id, channel, authority, fence_key, fence = KEYS[9], ARGV[1], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local ends_as, finishes, hash_prefix, wake_prefix, wake_mode =
  ARGV[8], ARGV[8] == 'f' or ARGV[8] == 'd', ARGV[15], ARGV[16], ARGV[17]
-- include task_read
if state == 'bad' then return {-3, 0} end
local queue = fields[10]
-- include queue_known
local answer, offers, is_next, leaves = nil, false, false, false
if state ~= 'live' or not queue or fields[4] ~= ARGV[2] then
  local meant = ARGV[2]
  -- include queue_made_by
  if not made then return {-1, 0} end
  answer = {1, made, meant}
end
-- The ids of the last eight ends that left the task in its queue, newest first.
local ends = not finishes and redis.call('HGET', key, 'end')
-- include task_own_write
if answer then
  -- By an earlier copy.
elseif written then
  answer = {1, written, fields[4]}
elseif ends and string.find(ends, id, 1, true) then
  if ARGV[10] ~= '' then return {-7, 0} end
  answer = {2, 0, ''}
else
  -- include task_fence
  local expected = ARGV[10] ~= '' and ARGV[10] or ARGV[18]
  if expected ~= '' and (version ~= tonumber(expected) or (ARGV[11] ~= '' and ARGV[11] ~= fields[4])) then
    return {0, version, fields[4]}
  end
  -- include queue_place
  local was = place
  if place ~= 4 and place ~= 6 then
    if finishes then
      -- include queue_leave
      place, leaves = ends_as == 'd' and 6 or 4, true
      if group then redis.call('HDEL', settings .. ':keys', task) end
      -- include queue_finished
    elseif place == 2 or (ends_as == 'r' and place ~= 3) then
      -- include queue_terms
      -- include queue_times
      -- include queue_leave
      if ends_as == 'r' then
        local delay = tonumber(ARGV[9])
        due = math.min(now + delay, 9007199254740991)
        if delay == 0 or attempts >= max_attempts or fails <= now then
          -- include queue_behind
        else
          place, lease_end, sequence = 0, 0, 0 -- it gets another when its delay is over
          redis.call('ZADD', delayed, due, task)
          local look_by = due
          -- include queue_look
        end
      else
        attempts, lease_end = attempts - 1, 0
        if due + 0 > now then
          place = 0
          redis.call('ZADD', delayed, due, task)
          local look_by = due + 0
          -- include queue_look
        else
          if sequence + 0 == 0 then sequence = redis.call('HINCRBY', settings, 'sequence', 1) end
          -- include queue_ready
        end
      end
      -- include queue_pack
    end
    if place == 3 and was ~= 3 then redis.call('HDEL', settings, 'look') end
    offers = (place == 1 and was ~= 1) or (was == 2 and not KEYS[10])
    is_next = place == 0 and redis.call('ZRANK', delayed, task) == 0
  end
  local more = {'queue', queue}
  if fields[6] ~= fence then
    more[3], more[4], more[5], more[6], more[7], more[8] =
      'fence', fence, 'fence_authority', authority, 'fence_key', fence_key
  end
  if not finishes then
    local m = #more
    more[m + 1], more[m + 2] = 'end', ends and string.sub(id .. ' ' .. ends, 1, 8 * (#id + 1) - 1) or id
  end
  if ARGV[10] ~= '' then
    local expires_at = ARGV[13]
    local version_text = string.format('%d', version + 1)
    -- include task_write_ids
    if expires_at ~= '' then
      local m = #more
      more[m + 1], more[m + 2] = 'expires_at', expires_at
    end
    redis.call('HSET', key, 'version', version_text, 'data', ARGV[12], 'write', write, unpack(more))
    if expires_at ~= '' then
      redis.call('PEXPIREAT', key, string.format('%.0f', ARGV[14] - 1))
    elseif fields[3] then
      redis.call('HDEL', key, 'expires_at')
      redis.call('PERSIST', key)
    end
    if place == 4 or place == 6 then redis.call('ZADD', finished, ARGV[14] ~= '' and ARGV[14] or 'inf', task) end
    if leaves then
      local ends_at = ARGV[14]
      -- include queue_made
    end
    answer = {1, version + 1, fields[4]}
  else
    redis.call('HSET', key, unpack(more))
    answer = {2, 0, ''}
  end
  -- include task_changed
  if leaves and place == 6 then
    local max_dead, channel_prefix = tonumber(ARGV[9]), string.sub(channel, 1, #channel - #task)
    -- include queue_dead
  end
  -- Its lease has ended, or it was ready and is so no more.
  if group and (was == 2 or (was == 1 and place ~= 1 and place ~= 5)) then
    local channel_prefix = string.sub(channel, 1, #channel - #task)
    -- include queue_release
    offers = offers or (released > 0 and not KEYS[10])
  end
end
if KEYS[10] then
  local memory, channel_prefix, lock_prefix, process, waiting = KEYS[10], ARGV[19], ARGV[20], ARGV[21], ARGV[22]
  local call, floor, worker, lease, limit, searched =
    tonumber(ARGV[23]), tonumber(ARGV[24]), ARGV[25], tonumber(ARGV[26]), tonumber(ARGV[27]), 0
  local n = 3
  -- include queue_take
end
if leaves and (not KEYS[10] or answer[7] == 0) then
  if redis.call('EXISTS', ready, delayed, leases, exhausted, settings .. ':parked') == 0 then
    -- include queue_idle
    offers = false
  end
end
-- A task that can be claimed, a lease that a limit counted, or the next delayed one: a worker learns when to look again.
if is_next or (offers and redis.call('EXISTS', ready) == 1) then
  -- include queue_wake
end
return answer
