-- Writes the record: its hash, its place in the owner's index, its end. `state` is what was there; new_version,
-- incarnation, data, expires_at (seconds, or ''), until_ms, task, score, id, channel and the token are given;
-- `origin` too where a record is created, `queue` (or nil) where a record may be in a queue.
--
-- The index comes first: a value of another type there is found before anything is changed. A new record takes
-- its place anew, for a dead one's may have been left behind; one that is there keeps it.
if state == 'live' then
  redis.call('ZADD', index, 'NX', score, task)
else
  redis.call('ZADD', index, score, task)
  -- It may have been left to expire: parts/queue_idle.lua.
  redis.call('PERSIST', index)
  if state == 'expired' then redis.call('DEL', key) end
end
local more = {}
if expires_at ~= '' then more = {'expires_at', expires_at} end
if fence ~= '' and fields[6] ~= fence then
  local n = #more
  more[n + 1], more[n + 2], more[n + 3], more[n + 4], more[n + 5], more[n + 6] =
    'fence', fence, 'fence_authority', authority, 'fence_key', fence_key
end
if origin and origin ~= '' then
  local n = #more
  more[n + 1], more[n + 2] = 'origin', origin
end
if queue then
  local n = #more
  more[n + 1], more[n + 2] = 'queue', queue
end
local version_text = string.format('%d', new_version)
-- include task_write_ids
redis.call('HSET', key, 'version', version_text, 'data', data, 'incarnation', incarnation, 'write', write,
  unpack(more))
if expires_at ~= '' then
  redis.call('PEXPIREAT', key, until_ms)
elseif state == 'live' then
  if fields[3] then redis.call('HDEL', key, 'expires_at') end
  redis.call('PERSIST', key)
end
-- include task_changed
