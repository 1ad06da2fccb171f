-- Deletes a lock's record and index if it expired over 2000 ms ago and Redis did not drop it. Never a fence.
-- Without it, locks cannot be cleaned up.
--
-- KEYS[1] lock key    KEYS[2] on a cluster KEYS[1] again
-- ARGV[1] the part of an index key before the id; '' if index keys end in a hash
--
-- returns 1 deleted   0 nothing to delete   -3 the value at the lock key is not a lock record
--         {-9, key} nothing was done: to be sent again with that key declared
local record = redis.call('GET', KEYS[1])
if not record then return 0 end
-- include read_record
if not owner then return -3 end
-- include server_time
if expires >= now - 2000 then return 0 end
-- include whole_record
local index_prefix = ARGV[1] ~= '' and ARGV[1]
-- include owner_index
redis.call('DEL', KEYS[1])
-- include drop_index
return 1
