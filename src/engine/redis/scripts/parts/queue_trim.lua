-- Removes finished tasks that have expired from the sets, at most `most`. dead: those that were looked at.
-- A name may belong to another record by now, and other software may have changed the expiry.
local dead = redis.call('ZRANGE', finished, '-inf', now, 'BYSCORE', 'LIMIT', 0, most)
if #dead > 0 then
  local keys, gone, kept, not_dead = {}, dead, {}, dead
  for i = 1, #dead do keys[i] = hash_prefix .. dead[i] end
  if redis.call('EXISTS', unpack(keys)) > 0 then
    gone, not_dead = {}, {}
    for i = 1, #dead do
      local fields = redis.pcall('HMGET', keys[i], 'expires_at', 'queue')
      if not fields.err then
        local ends = fields[1] and string.find(fields[1], '^%d+$') and fields[1] * 1000
        local place = fields[2] and fields[2] ~= '' and string.byte(fields[2]) % 48
        if redis.call('EXISTS', keys[i]) == 0 or (ends and ends <= now) then
          gone[#gone + 1], place = dead[i], nil
        elseif place == 4 or place == 6 then
          kept[#kept + 1], kept[#kept + 2] = ends or 'inf', dead[i]
        end
        if place ~= 6 then not_dead[#not_dead + 1] = dead[i] end
      end
    end
  end
  if #gone > 0 then redis.call('ZREM', index, unpack(gone)) end
  if #not_dead > 0 then redis.call('ZREM', settings .. ':dead', unpack(not_dead)) end
  redis.call('ZREM', finished, unpack(dead))
  if #kept > 0 then redis.call('ZADD', finished, unpack(kept)) end
end
