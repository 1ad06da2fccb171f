-- Removes a record.
--
-- KEYS[1] the record's hash    KEYS[2] the owner's index
-- ARGV[1] task    ARGV[2] expected version, '' for any    ARGV[3] expected incarnation, '' for any
-- ARGV[4] channel
-- ARGV[5..7] authority, lock key and fence of the token; '' for none
--
-- returns 1   removed
--         0   there is none
--         {-5, version, incarnation}   it is another version, or another record
--         {-2, highest}, {-4, authority, lock key, fence}   refused by the record's guard
--         {-3, 0}   the value is not a record, and a version was expected; else it is removed too
local key, index, task, channel = KEYS[1], KEYS[2], ARGV[1], ARGV[4]
local authority, fence_key, fence = ARGV[5], ARGV[6], ARGV[7]
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
if state == 'absent' then return 0 end
redis.call('DEL', key)
if state == 'expired' then return 0 end
-- include task_changed
return 1
