-- Writes a record, whatever its version.
-- Without it, tasks cannot be changed.
--
-- KEYS[1] the record's hash    KEYS[2] the owner's index
-- ARGV[1] data    ARGV[2] expires_at in seconds, or ''    ARGV[3] task    ARGV[4] score
-- ARGV[5] when Redis must drop it, in ms    ARGV[6] the request's id    ARGV[7] channel
-- ARGV[8] '1': also if there is none
-- ARGV[9..11] authority, lock key and fence of the token; '' for none
--
-- returns {version, incarnation}   written, by this copy of the request or an earlier one
--         {-1, 0}                  there is none
--         {-2, highest}, {-4, authority, lock key, fence}   refused by the record's guard
--         {-3, 0}                  the value is not a record; it is not changed
--         {-6, 0}                  it has left a queue, and expires with that: see queue_put
local key, index, data, expires_at, task, score = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local until_ms, id, channel, may_create = ARGV[5], ARGV[6], ARGV[7], ARGV[8]
local authority, fence_key, fence = ARGV[9], ARGV[10], ARGV[11]
local origin, queue
-- include task_read
if state == 'bad' then return {-3, 0} end
local new_version, incarnation = 1, id
if state == 'live' then
  if fields[10] and ((string.byte(fields[10]) or 0) % 48 == 4 or (string.byte(fields[10]) or 0) % 48 == 6) then return {-6, 0} end
  -- include task_own_write
  if written then return {written, fields[4]} end
  -- include task_fence
  new_version, incarnation = version + 1, fields[4] or id
else
  if may_create ~= '1' then return {-1, 0} end
  fields = {}
end
-- include task_write
return {new_version, incarnation}
