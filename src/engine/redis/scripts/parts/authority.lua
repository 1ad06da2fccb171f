-- authority: the id of these fence counters. Created if it is missing, as after a FLUSHALL.
-- KEYS[4] its key    ARGV[1] a lock id of this request's own    time: of the server
local authority = redis.call('GET', KEYS[4])
if not authority then
  local hash = redis.sha1hex(ARGV[1] .. ' ' .. time[1] .. ' ' .. time[2])
  authority = string.sub(hash, 1, 8) .. '-' .. string.sub(hash, 9, 12) .. '-8' .. string.sub(hash, 14, 16) .. '-8'
    .. string.sub(hash, 18, 20) .. '-' .. string.sub(hash, 21, 32)
  redis.call('SET', KEYS[4], authority)
end
