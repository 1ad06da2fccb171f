-- Acquires a lock for an id, if it is free. docs/internals/redis-native.md describes the fields.
-- Without it, locks cannot be acquired.
--
-- KEYS[1] lock key    KEYS[2] the fence counter that the documented layout would have for it; omitted on a cluster, where
--                     it may be in another slot
-- ARGV[1] lock id    ARGV[2] ttl in ms
-- ARGV[3] two bytes: how many bytes at the end of the lock key are the user key; 0: the user key follows them here;
--         from 128, 0 on: the label of the holder follows
-- ARGV[4] the fence is above this, 15 digits
-- ARGV[5] until when the counter is needed, in ms; '': forever; omitted: the counter's expiry is not changed
--
-- returns the state of the lock, 52 bytes: granted
--         {state, n}   granted; the counter was n, below the floor
--         {state}      already held by this id
--         n > 0   held by another id; the lease expires in n ms unless it is renewed. If that lock has a label, a text:
--                 n, a space, the last two bytes of its state, and field u
--         -3      the value at the lock key is not a lock
--         -4      the fence counter is exhausted
--         -6      the id was released or broken: its release overtook this request
--         -8      the documented layout's counter of this key is there: SyncGuard uses it. Nothing was changed
local state = redis.call('HGET', KEYS[1], 's')
-- include native_time
local flags, count, authority, expires = 0, 0, nil, nil
if not state then
  if redis.call('EXISTS', unpack(KEYS)) > 0 then return redis.call('EXISTS', KEYS[1]) == 1 and -3 or -8 end
  -- include native_create
elseif #state == 52 then
  flags, count, authority, expires = struct.unpack('>BI7c8I6', state)
  if now < expires then
    if string.sub(state, 29, 50) == ARGV[1] then return {state} end
    local left = expires - now + 0.9995 -- rounded up
    if string.byte(state, 51) < 128 then return left end
    return string.format('%d ', left) .. string.sub(state, 51) .. (redis.call('HGET', KEYS[1], 'u') or '')
  end
elseif #state == 16 then
  flags, count, authority = struct.unpack('>BI7c8', state)
else
  return -3
end

local unused, floor = state and count == 0, ARGV[4] + 0
local before = count < floor and count
count = (before and floor or count) + 1
if unused and KEYS[2] and redis.call('EXISTS', KEYS[2]) == 1 then return -8 end
if count > 900000000000000 then return -4 end
if flags ~= 0 or unused or ARGV[5] then
  local fields = redis.call('HMGET', KEYS[1], ARGV[1], 'x', 'e')
  if fields[1] then return -6 end
  local sweep_at, ends = fields[2], fields[3]
  -- include native_sweep
  -- include native_end
  flags = (dead and 1 or 0) + (ends and 2 or 0)
end
state = struct.pack('>BI7c8I6I6', flags, count, authority, now + ARGV[2], now) .. ARGV[1] .. ARGV[3]
if #state > 52 then
  local more = string.sub(state, 53)
  state = string.sub(state, 1, 52)
  redis.call('HSET', KEYS[1], 's', state, 'u', more)
else
  redis.call('HSET', KEYS[1], 's', state)
end
return before and {state, before} or state
