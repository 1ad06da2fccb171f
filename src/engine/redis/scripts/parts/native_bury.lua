-- Keeps the id (ARGV[1]) from being granted this key again: a field of its name. `kind`: 't' released, 'b' broken by
-- an operator, which is not replaced. Its presence counts; at `bury_until` it may be swept away. now, time are set.
local fields = redis.call('HMGET', KEYS[1], 's', ARGV[1], 'x')
local state, sweep_at = fields[1], fields[3]
if not state then
  local authority
  -- include native_create
  state = struct.pack('>BI7c8', 0, 0, authority)
  redis.call('HSET', KEYS[1], 's', state)
end
-- No fence was ever granted here: the key may go with the tombstone.
if struct.unpack('>I7', state, 2) == 0 then redis.call('PEXPIREAT', KEYS[1], string.format('%d', bury_until)) end
-- include native_sweep
if not fields[2] or string.sub(fields[2], 1, 1) ~= 'b' then
  redis.call('HSET', KEYS[1], ARGV[1], kind .. string.format('%d', bury_until))
end
if not dead then redis.call('HSET', KEYS[1], 'x', string.format('%d', now + 60000)) end
local flags = string.byte(state)
if flags % 2 == 0 then redis.call('HSET', KEYS[1], 's', string.char(flags + 1) .. string.sub(state, 2)) end
