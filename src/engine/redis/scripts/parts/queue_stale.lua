-- The record of `task` is gone: other software removed it. Its limit key is known from :keys; what it held there ends.
do
  local group = redis.call('HGET', settings .. ':keys', task)
  if group then
    redis.call('ZREM', settings .. ':limits', group .. task)
    redis.call('HDEL', settings .. ':keys', task)
    -- include queue_release
  end
end
