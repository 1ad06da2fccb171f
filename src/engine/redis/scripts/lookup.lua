-- The record of a held lock. Changes nothing.
-- Without it, locks cannot be looked up.
--
-- KEYS[1] lock key; or, with ARGV[1], the index key of that id    KEYS[2] on a cluster KEYS[1] again
-- ARGV[1] lock id, or nothing
--
-- returns the record's JSON; nil if there is no live one (with an id: or it is another id's);
--         -3 if the value at the lock key is not a lock record
--         {-9, key}: to be sent again with that key declared
local index, lock_key, record
if ARGV[1] then
  -- include indexed_lock
else
  record = redis.call('GET', KEYS[1])
end
if not record then return nil end
-- include read_record
if not owner then return -3 end
-- include server_time
-- include liveness
if not live or (ARGV[1] and owner ~= ARGV[1]) then return nil end
return record
