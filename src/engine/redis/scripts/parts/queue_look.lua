-- Ensures that the next upkeep is not later than `look_by`. No time is known: it is done by the next claim.
local look = redis.call('HGET', settings, 'look')
if look and look_by < tonumber(look) then redis.call('HSET', settings, 'look', look_by) end
