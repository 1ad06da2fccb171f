-- Frees the lock of an id as release does, and keeps a late acquire of that id from being granted: for an id
-- whose acquire was never answered and may be under way still.
--
-- KEYS, ARGV[1], ARGV[2] and returns as release    ARGV[3] for how long, in ms
--
-- Whatever was found, the index key becomes a tombstone (an empty value, which no lock key is), unless
-- the id holds another lock, whose index it is.
local function release()
  -- include release_held
end
local function holds_another()
  local index = redis.call('GET', KEYS[1])
  if not index or index == '' then return false end
  local record = redis.call('GET', index)
  if not record then return false end
  -- include read_record
  if owner ~= ARGV[1] then return false end
  -- include server_time
  -- include liveness
  return live
end

local code = release()
if not holds_another() then redis.call('SET', KEYS[1], '', 'PX', ARGV[3]) end
return code
