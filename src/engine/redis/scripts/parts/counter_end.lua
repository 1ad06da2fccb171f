-- Sets the expiry of the counter (KEYS[3]) in the step that raised it to `count`: a day after ARGV[5] ('': never)
-- and after the lease. Within the floor's share of 10^9, an epoch, a counter is no lower than the clock, in seconds
-- since 2025; and none expires before the clock is a day ahead of it. So a counter that has expired continues above all
-- it ever granted.
local epoch = floor - floor % 1000000000
count = math.max(count, floor + 1, epoch + time[1] - 1735689600)
if ARGV[5] == '' then
  redis.call('SET', KEYS[3], string.format('%d', count))
else
  local needed = math.max(ARGV[5], expires, (count - epoch + 1735689600) * 1000)
  redis.call('SET', KEYS[3], string.format('%d', count), 'PXAT', string.format('%d', needed + 86400000))
end
