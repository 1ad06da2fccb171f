-- The lock that an id holds: lock_key, record and its parts, now; and what its index is. Ends the script with
--   0 another owner   -1 absent   -2 expired, and deleted   -3 not a lock record   {-9, key} declare that key
-- KEYS[1] index key of the id    KEYS[2] lock key, if the caller knows it: then only there; else KEYS[1] again on a
--         cluster, none on a single server (parts/declared.lua)
-- ARGV[1] lock id
local known = KEYS[2] ~= KEYS[1] and KEYS[2]
local index, lock_key, record = known, known, nil
if known then
  record = redis.call('GET', lock_key)
else
  -- include indexed_lock
end
if not record then return -1 end
-- include read_record
if not owner then return -3 end
-- include server_time
-- include liveness
if not live then
  -- Another's leftover, met by its key: this id's index has nothing to do with it.
  if known and owner ~= ARGV[1] then return -1 end
  -- include whole_record
  redis.call('DEL', lock_key)
  -- The id may have moved on to another lock, whose index this is then.
  if redis.call('GET', KEYS[1]) == index then redis.call('DEL', KEYS[1]) end
  return -2
end
if owner ~= ARGV[1] then return 0 end
