-- Releases the lock of an id like release, and keeps a late acquire of that id from being granted: for an id
-- whose acquire was never answered and may still be pending.
-- Without it, locks cannot be released.
--
-- KEYS, ARGV[1], ARGV[2] and returns as release    ARGV[3] for how long, in ms
--
-- In every case the index key becomes a tombstone (an empty value, which is never a lock key), unless the id
-- holds another lock, whose index it is. The mark of a break is a more specific tombstone: it is kept.
local function release()
  -- include release_held
end
local function index_is_needed()
  local index, lock_key, record
  -- include indexed_lock
  if index == '\255' then return true end
  if not record then return false end
  -- include read_record
  if owner ~= ARGV[1] then return false end
  -- include server_time
  -- include liveness
  return live
end

local undeclared = index_is_needed() -- before the first write
if type(undeclared) == 'table' then return undeclared end
local code = release()
if type(code) == 'table' then return code end
if not index_is_needed() then redis.call('SET', KEYS[1], '', 'PX', ARGV[3]) end
return code
