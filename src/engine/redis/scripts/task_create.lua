-- Creates a record unless it exists or the owner has reached its quota.
--
-- KEYS[1] the record's hash    KEYS[2] the owner's index
-- ARGV[1] data    ARGV[2] expires_at in seconds, or ''    ARGV[3] task    ARGV[4] score
-- ARGV[5] when Redis must drop it, in ms    ARGV[6] the request's id, which becomes the incarnation
-- ARGV[7] channel    ARGV[8] how many records the owner may have, '' for any number
-- ARGV[9] the part of a record's key before the task    ARGV[10] origin
-- ARGV[11..13] authority, lock key and fence of the token; '' for none
--
-- returns {1, now}                  created, by this copy of the request or an earlier one
--         {0, now, version, data, incarnation, origin, fence, authority, lock key}   it exists
--         {-5, now, records}        the owner has that many
--         {-3, now}                 the value is not a record; it is not changed
-- now is the server's time in ms. The keys of the owner's other records are made from ARGV[9] when the index is
-- swept: on a cluster they would have to be in one slot.
local key, index, data, expires_at, task, score = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local until_ms, id, channel, limit, hash_prefix, origin = ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9], ARGV[10]
local authority, fence_key, fence = ARGV[11], ARGV[12], ARGV[13]
-- include task_read
if state == 'bad' then return {-3, now} end
if state == 'live' then
  if fields[4] == id then return {1, now} end
  -- include task_incarnation
  return {0, now, version, fields[2], incarnation, fields[5], fields[6], fields[7], fields[8]}
end
if limit ~= '' then
  limit = tonumber(limit)
  local count = redis.call('ZCARD', index)
  -- include task_sweep
  if count >= limit then return {-5, now, count} end
end
fields = {}
local new_version, incarnation = 1, id
-- include task_write
return {1, now}
