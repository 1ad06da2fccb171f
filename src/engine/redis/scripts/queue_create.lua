-- Creates a record in a queue unless it exists or the owner has reached its quota.
-- Without it, tasks cannot be queued.
--
-- KEYS[1..8] as in parts/queue_names.lua    KEYS[9] the record's hash
-- ARGV[1] data    ARGV[2] expires_at in seconds, or ''    ARGV[3] task    ARGV[4] score
-- ARGV[5] when Redis must drop it, in ms    ARGV[6] the request's id, which becomes the incarnation
-- ARGV[7] channel    ARGV[8] how many records the owner may have, '' for any number
-- ARGV[9] the part of a record's key before the task    ARGV[10] origin
-- ARGV[11] the terms as text: see engine/redis/queue_state.hpp    ARGV[12] not before, in ms; '' for at once
-- ARGV[13] greatest age in ms    ARGV[14] the task's lock key, if it is not the usual one
-- ARGV[15] the part of the name of a process' channel before its name    ARGV[16] the kind of these channels
--
-- returns as task_create. The keys of records that have expired are made from ARGV[9]; they have the queue's slot.
-- include queue_names
local key, data, expires_at, task, score = KEYS[9], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local id, channel, limit, hash_prefix, origin = ARGV[6], ARGV[7], ARGV[8], ARGV[9], ARGV[10]
local wake_prefix, wake_mode = ARGV[15], ARGV[16]
-- include server_time
local made = settings .. ':made:' .. id
if redis.call('EXISTS', key, made) > 0 then
  -- By an earlier copy of this request; it has ended since. See parts/queue_made.lua.
  if redis.call('EXISTS', made) == 1 then return {1, now} end
  -- include task_fields
  -- include task_state
  -- include task_guard
  if state == 'bad' then return {-3, now} end
  if state == 'live' then
    if fields[4] == id then return {1, now} end
    -- include task_incarnation
    return {0, now, version, fields[2], incarnation, fields[5], fields[6], fields[7], fields[8], fields[10]}
  end
  redis.call('DEL', key)
end
if limit ~= '' then
  limit = tonumber(limit)
  local count = redis.call('ZCARD', index)
  if count >= limit then
    -- What has expired does not count. If there is more of it, the next create finds room.
    local most = 1000
    -- include queue_trim
    count = redis.call('ZCARD', index)
    if count >= limit then return {-5, now, count, ''} end
  end
end
if redis.call('ZADD', index, score, task) == 0 then -- a dead record's place was left behind
  redis.call('ZREM', finished, task)
  redis.call('ZREM', settings .. ':dead', task)
end
local sequence = redis.call('HINCRBY', settings, 'sequence', 1)
if sequence == 1 then
  redis.call('PERSIST', index)
  redis.call('PERSIST', finished)
  redis.call('PERSIST', settings .. ':dead')
end
local due = ARGV[12] ~= '' and tonumber(ARGV[12]) or now
local place = 1
if due > now then
  place, sequence = 0, 0
else
  due = now
end
local fails = math.min(due + ARGV[13], 9007199254740991)
local queue = string.format('%d0000000000%016d%016d000000000000000000000000000000000000000000%016d0000000000000000', place, due,
  sequence, fails) .. ARGV[11]
-- A predecessor that other software removed: what it held must not be taken for this one's.
local channel_prefix = string.sub(channel, 1, #channel - #task)
-- include queue_stale
-- include queue_group
if group then redis.call('HSET', settings .. ':keys', task, group) end
if place == 1 then
  local priority = string.sub(ARGV[11], 1, 6)
  -- include queue_ready
  if place == 5 then queue = '5' .. string.sub(queue, 2) end
end
local more = {}
if expires_at ~= '' then more = {'expires_at', expires_at} end
if origin ~= '' then
  local n = #more
  more[n + 1], more[n + 2] = 'origin', origin
end
if ARGV[14] ~= '' then
  local n = #more
  more[n + 1], more[n + 2] = 'queue_lock', ARGV[14]
end
redis.call('HSET', key, 'version', '1', 'data', data, 'incarnation', id, 'queue', queue, unpack(more))
if expires_at ~= '' then redis.call('PEXPIREAT', key, ARGV[5]) end
if place == 1 then
  -- include queue_wake
elseif place == 0 then
  redis.call('ZADD', delayed, due, task)
  local look_by = due
  -- include queue_look
  -- The next one: a worker learns when to look again.
  if redis.call('ZRANK', delayed, task) == 0 then
    -- include queue_wake
  end
end
-- include task_changed
return {1, now}
