-- Releases the lock of an id like release, and keeps a late acquire of that id from being granted: for an id
-- whose acquire was never answered and may still be pending.
--
-- KEYS, ARGV[1], ARGV[2] and returns as release    ARGV[3] for how long, in ms
--
-- In every case the index key becomes a tombstone (an empty value, which is never a lock key), unless the id
-- holds another lock, whose index it is. The mark of a break is a more specific tombstone: it is kept.
local function release()
  -- include release_held
end
local function index_is_needed()
  local index = redis.call('GET', KEYS[1])
  if not index or index == '' then return false end
  if index == '\255' then return true end
  local record = redis.call('GET', index)
  if not record then return false end
  -- include read_record
  if owner ~= ARGV[1] then return false end
  -- include server_time
  -- include liveness
  return live
end

local code = release()
if not index_is_needed() then redis.call('SET', KEYS[1], '', 'PX', ARGV[3]) end
return code
