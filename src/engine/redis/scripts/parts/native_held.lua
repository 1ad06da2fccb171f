-- The lock that an id holds: state, expires, now. Ends the script with
--   0 another owner   -1 absent   -2 expired, and shrunk   -3 not a lock
-- KEYS[1] lock key    ARGV[1] lock id
local state = redis.call('HGET', KEYS[1], 's')
if not state then return redis.call('EXISTS', KEYS[1]) == 0 and -1 or -3 end
if #state == 16 then return -1 end
if #state ~= 52 then return -3 end
-- include native_time
local expires = struct.unpack('>I6', state, 17)
if string.sub(state, 29, 50) ~= ARGV[1] then return now < expires and 0 or -1 end
if now >= expires then
  state = string.sub(state, 1, 16)
  -- include native_keep
  return -2
end
