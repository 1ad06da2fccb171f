-- Sets when a counter that ends does so. `ends`: field e, false for never; `count`: the fence to be granted; `unused`:
-- no fence was granted before, and the key has the expiry of a tombstone; ARGV[5], now, time and floor are given.
-- The key expires as a whole, so never before a day after its lease. As in parts/counter_end.lua, within the floor's
-- share of 10^9: a counter continues from the clock, and none expires before the clock is a day ahead of it.
local lease_end = math.floor(now) + ARGV[2]
if ARGV[5] then count = math.max(count, floor - floor % 1000000000 + time[1] - 1735689600) end
local day_after = ends and math.max(ends, lease_end + 86400000)
if ARGV[5] == '' then
  day_after = false
elseif ARGV[5] then
  day_after = math.max(ARGV[5], lease_end, (count % 1000000000 + 1735689600) * 1000) + 86400000
end
if day_after then
  local at = string.format('%d', day_after)
  if at ~= ends then redis.call('HSET', KEYS[1], 'e', at) end
  redis.call('PEXPIREAT', KEYS[1], at)
else
  if ends then redis.call('HDEL', KEYS[1], 'e') end
  if ends or unused then redis.call('PERSIST', KEYS[1]) end
end
ends = day_after
