-- Renews leases of a queue, each for itself.
-- Without it, tasks cannot be claimed.
--
-- KEYS[1..8] as in parts/queue_names.lua
-- ARGV[1] the part of a record's key before the task    ARGV[2] lease in ms
-- ARGV[3..] task, incarnation and fence of each
--
-- returns for each: how many ms it lasts, or -1 if it is not held; and the record's version
-- The records' keys are made from ARGV[1]: they have the slot of the others.
-- include queue_names
local hash_prefix, lease = ARGV[1], tonumber(ARGV[2])
-- include server_time
-- include queue_when_full
local answer, n, look_by, moved, failed = {}, 0, math.huge, {}, nil
for i = 3, #ARGV, 3 do
  local task = ARGV[i]
  local key = hash_prefix .. task
  local fields = redis.pcall('HMGET', key, 'incarnation', 'fence', 'queue', 'version')
  local queue, lasts = not fields.err and fields[3], -1
  local is_missing = not queue and not fields.err and redis.call('EXISTS', key) == 0
  if fields.err and not string.find(fields.err, '^WRONGTYPE') then failed = fields end
  -- include queue_unreached
  if failed then break end
  -- include queue_known
  if queue and fields[1] == ARGV[i + 1] and fields[2] == ARGV[i + 2] then
    -- include queue_terms
    -- include queue_times
    if string.byte(queue) == 50 and lease_end > now then
      lease_end = now + lease
      if attempt_limit > 0 then lease_end = math.min(lease_end, claimed + attempt_limit) end
      lasts = lease_end - now
      queue = string.sub(queue, 1, 59) .. string.format('%016d', lease_end) .. string.sub(queue, 76)
      redis.call('HSET', key, 'queue', queue)
      moved[#moved + 1], moved[#moved + 2] = lease_end, task
      look_by = math.min(look_by, lease_end)
    end
  end
  answer[n + 1], answer[n + 2] = lasts, lasts >= 0 and tonumber(fields[4]) or 0
  n = n + 2
end
if #moved > 0 then
  redis.call('ZADD', leases, unpack(moved))
  -- include queue_look
end
return failed or answer
