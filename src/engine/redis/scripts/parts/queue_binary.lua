-- queue: the text for the bytes that earlier builds stored. Numbers were big-endian: place, attempts, deaths, due, fails,
-- sequence, claimed, lease_end, counter, priority, max_attempts, attempt_limit, max_age, retention, not_before, flags,
-- failed_retention; then limit and limit key, if there is one, and the worker.
local n = {struct.unpack('>BI4I4I7I7I7I7I7I7i2I4i8i8i8i8Bi8', queue)}
local limited, worker = '', string.sub(queue, 99)
if n[16] > 1 then
  local limit, size = struct.unpack('>I4I2', queue, 99)
  limited = string.format('%010d%05d', limit, size) .. string.sub(queue, 105, 104 + size)
  worker = string.sub(queue, 105 + size)
end
local lengths = string.format('%.0f %.0f %.0f %.0f ', n[13], n[14], n[15], n[17])
queue = string.format('%d%010d%016d%016d%016d%016d%010d%016d%016d%+06d%010d%020.0f%d%04d', n[1], n[3], n[4], n[6], n[7],
  n[8], n[2], n[5], n[9], n[10], n[11], n[12], n[16], 159 + #limited + #lengths) .. limited .. lengths .. worker
