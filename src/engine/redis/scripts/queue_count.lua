-- Counts the tasks of a queue, after changing its settings on request.
-- Without it, tasks cannot be counted.
--
-- KEYS[1..8] as in parts/queue_names.lua
-- ARGV[1] the part of a record's key before the task    ARGV[2] '1' pause, '0' resume, '' as it is
-- ARGV[3] how many tasks may be leased, '0' for any number, '' as it is
-- ARGV[4] channel prefix    ARGV[5] kind of channels
--
-- returns {ready, delayed, leased, exhausted, records, paused, max_leased or nil, when the first ready one became
--          ready or nil, when the next delayed one becomes ready or nil, parked, dead, expired leases}
-- include queue_names
local hash_prefix, wake_prefix, wake_mode = ARGV[1], ARGV[4], ARGV[5]
-- include server_time
if ARGV[2] ~= '' or ARGV[3] ~= '' then
  -- include queue_when_full
end
if ARGV[2] == '1' then
  redis.call('HSET', settings, 'paused', '1')
elseif ARGV[2] == '0' then
  redis.call('HDEL', settings, 'paused')
end
if ARGV[3] == '0' then
  redis.call('HDEL', settings, 'max_leased')
elseif ARGV[3] ~= '' then
  redis.call('HSET', settings, 'max_leased', ARGV[3])
end
if ARGV[2] == '0' or ARGV[3] ~= '' then
  for _ = 1, math.min(redis.call('ZCARD', ready) + redis.call('ZCOUNT', delayed, '-inf', now), 100) do
    -- include queue_wake
  end
end
local most = 1000
-- include queue_trim
local oldest, next_due = false, false
local first = redis.call('ZRANGE', ready, 0, 0)[1]
if first then
  local queue = redis.pcall('HGET', hash_prefix .. first, 'queue')
  if type(queue) ~= 'string' then queue = nil end
  -- include queue_known
  if queue then
    -- include queue_times
    oldest = string.format('%.0f', due)
  end
end
next_due = redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')[2] or false
local meta = redis.call('HMGET', settings, 'paused', 'max_leased')
return {redis.call('ZCARD', ready), redis.call('ZCARD', delayed), redis.call('ZCARD', leases),
  redis.call('ZCARD', exhausted), redis.call('ZCARD', index),
  meta[1] == '1' and 1 or 0, meta[2], oldest, next_due,
  redis.call('ZCARD', settings .. ':parked'), redis.call('ZCARD', settings .. ':dead'),
  redis.call('ZCOUNT', leases, '-inf', now)}
