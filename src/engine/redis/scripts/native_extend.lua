-- Sets the expiry of an id's lock to now + ttl, earlier or later than before.
-- Without it, locks cannot be extended.
--
-- KEYS[1] lock key    ARGV[1] lock id    ARGV[2] ttl in ms
-- ARGV[3] for a lock that is adopted: the new label; '': none. Omitted: the label stays
--
-- returns {1, expiresAtMs}   extended
--         0 another owner   -1 absent   -2 expired   -3 not a lock
-- include native_held
local until_ms = math.floor(now) + ARGV[2]
if string.byte(state) % 4 >= 2 then
  -- The key expires as a whole: never before a day after its lease.
  local ends = redis.call('HGET', KEYS[1], 'e')
  if ends and ends - 86400000 < until_ms then
    local at = string.format('%d', until_ms + 86400000)
    redis.call('PEXPIREAT', KEYS[1], at)
    redis.call('HSET', KEYS[1], 'e', at)
  end
end
state = string.sub(state, 1, 16) .. struct.pack('>I6', until_ms) .. string.sub(state, 23)
if ARGV[3] then
  local size, key = struct.unpack('>I2', state, 51), ''
  if size == 0 or size >= 49152 then
    key = redis.call('HGET', KEYS[1], 'u') or ''
    if size ~= 0 then key = string.sub(key, 1, size - 49152) end
    size = ARGV[3] ~= '' and 49152 + #key or 0
  else
    size = size % 32768 + (ARGV[3] ~= '' and 32768 or 0)
  end
  -- pcall: on a server that is full, the lock is kept, with its old label.
  if type(redis.pcall('HSET', KEYS[1], 'u', key .. ARGV[3])) ~= 'table' then
    state = string.sub(state, 1, 50) .. struct.pack('>I2', size)
  end
end
-- include native_keep
return {1, until_ms}
