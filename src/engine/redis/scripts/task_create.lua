-- Creates a record unless it exists or the owner has reached its quota.
-- Without it, tasks cannot be created.
--
-- KEYS[1] the record's hash    KEYS[2] the owner's index    KEYS[3...] records of the owner that may be dead
-- ARGV[1] data    ARGV[2] expires_at in seconds, or ''    ARGV[3] task    ARGV[4] score
-- ARGV[5] when Redis must drop it, in ms    ARGV[6] the request's id, which becomes the incarnation
-- ARGV[7] channel    ARGV[8] how many records the owner may have, '' for any number
-- ARGV[9] '=' and the last task that an earlier call found alive, '' for none    ARGV[10] origin
-- ARGV[11..13] authority, lock key and fence of the token; '' for none    ARGV[14...] the tasks of KEYS[3...]
--
-- returns {1, now}                  created, by this copy of the request or an earlier one
--         {0, now, version, data, incarnation, origin, fence, authority, lock key, queue}   it exists
--         {-5, now, records, checked, tasks...}   the owner has that many. Whether they are alive is not known of
--             these tasks: to be sent again with them, and with `checked` as ARGV[9]. None: all are
--         {-3, now}                 the value is not a record; it is not changed
-- now is the server's time in ms.
local key, index, data, expires_at, task, score = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local until_ms, id, channel, limit, checked, origin = ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9], ARGV[10]
local authority, fence_key, fence = ARGV[11], ARGV[12], ARGV[13]
-- include task_read
if state == 'bad' then return {-3, now} end
if state == 'live' then
  if fields[4] == id then return {1, now} end
  -- include task_incarnation
  return {0, now, version, fields[2], incarnation, fields[5], fields[6], fields[7], fields[8], fields[10]}
end
if limit ~= '' then
  limit = tonumber(limit)
  local count = redis.call('ZCARD', index)
  if count >= limit then
    -- include task_sweep
    if count >= limit then
      local rank = checked ~= '' and redis.call('ZRANK', index, string.sub(checked, 2))
      local from = rank and rank + 1 or 0
      return {-5, now, count, checked, unpack(redis.call('ZRANGE', index, from, from + 999))}
    end
  end
end
fields = {}
local new_version, incarnation, queue = 1, id, nil
-- include task_write
return {1, now}
