-- Sets the expiry of the counter (KEYS[3]) in the step that raised it to `count`: a day after ARGV[5] ('': never)
-- and after the lease. A counter below the floor (ARGV[4]) plus the clock, in seconds since 2025, continues from
-- there; and none expires before the clock is a day ahead of what it counted above its floor, a multiple of 10^9. So
-- a counter that has expired continues above all it ever granted.
count = math.max(count, ARGV[4] + time[1] - 1735689600)
if ARGV[5] == '' then
  redis.call('SET', KEYS[3], string.format('%d', count))
else
  local needed = math.max(ARGV[5], expires, (count % 1000000000 + 1735689600) * 1000)
  redis.call('SET', KEYS[3], string.format('%d', count), 'PXAT', string.format('%d', needed + 86400000))
end
