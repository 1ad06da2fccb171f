-- Deletes the dead ids whose time has come, if that was not tried for a minute. `sweep_at`: field x, when to try.
-- Sets dead: whether some are left.
local dead = sweep_at ~= false
if sweep_at and now >= tonumber(sweep_at) then
  dead = false
  local fields = redis.call('HGETALL', KEYS[1])
  for i = 1, #fields, 2 do
    if #fields[i] == 22 then
      if now >= tonumber(string.sub(fields[i + 1], 2)) then redis.call('HDEL', KEYS[1], fields[i]) else dead = true end
    end
  end
  if dead then
    redis.call('HSET', KEYS[1], 'x', string.format('%d', now + 60000))
  else
    redis.call('HDEL', KEYS[1], 'x')
  end
end
