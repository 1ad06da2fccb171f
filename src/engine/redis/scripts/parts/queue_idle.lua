-- For a queue without unfinished tasks: nothing of it stays behind. The finished tasks expire on their own; the sets
-- that name them expire with the last of them, unless other records share the index or one does not expire. The
-- sequence begins anew, which tells the next create that the sets must not expire any more.
local most = 1000
-- include queue_trim
redis.call('HDEL', settings, 'sequence', 'look')
redis.call('DEL', settings .. ':limits', settings .. ':keys')
local last = redis.call('ZRANGE', finished, -1, -1, 'WITHSCORES')
if last[1] then
  if last[2] ~= 'inf' and redis.call('ZCARD', index) <= redis.call('ZCARD', finished) then
    redis.call('PEXPIREAT', index, last[2])
    redis.call('PEXPIREAT', finished, last[2])
    redis.call('PEXPIREAT', settings .. ':dead', last[2])
  else
    redis.call('PERSIST', index)
    redis.call('PERSIST', finished)
    redis.call('PERSIST', settings .. ':dead')
  end
end
