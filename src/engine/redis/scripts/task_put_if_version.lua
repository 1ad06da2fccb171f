-- Writes a record if it exists and has the expected version.
-- Without it, tasks cannot be changed.
--
-- KEYS[1] the record's hash    KEYS[2] the owner's index
-- ARGV[1] data    ARGV[2] expected version    ARGV[3] expires_at in seconds, or ''    ARGV[4] task
-- ARGV[5] score   ARGV[6] expected incarnation, '' for any
-- ARGV[7] when Redis must drop it, in ms    ARGV[8] the request's id    ARGV[9] channel
-- ARGV[10..12] authority, lock key and fence of the token; '' for none
--
-- returns {1, version, incarnation}   written, by this copy of the request or an earlier one
--         {0, version, incarnation}   it is another version, or another record
--         {-1, 0}                     there is none
--         {-2, highest}, {-4, authority, lock key, fence}   refused by the record's guard
--         {-3, 0}                     the value is not a record; it is not changed
--         {-6, 0}                     it has left a queue, and expires with that: see queue_put
local key, index, data, expires_at, task, score = KEYS[1], KEYS[2], ARGV[1], ARGV[3], ARGV[4], ARGV[5]
local until_ms, id, channel = ARGV[7], ARGV[8], ARGV[9]
local authority, fence_key, fence = ARGV[10], ARGV[11], ARGV[12]
local origin, queue
-- include task_read
if state == 'bad' then return {-3, 0} end
if state ~= 'live' then return {-1, 0} end
if fields[10] and ((string.byte(fields[10]) or 0) % 48 == 4 or (string.byte(fields[10]) or 0) % 48 == 6) then return {-6, 0} end
-- include task_own_write
if written then return {1, written, fields[4]} end
-- include task_fence
if version ~= tonumber(ARGV[2]) or (ARGV[6] ~= '' and ARGV[6] ~= fields[4]) then
  -- include task_incarnation
  if version ~= tonumber(ARGV[2]) or ARGV[6] ~= incarnation then return {0, version, incarnation} end
end
local new_version, incarnation = version + 1, fields[4] or id
-- include task_write
return {1, new_version, incarnation}
