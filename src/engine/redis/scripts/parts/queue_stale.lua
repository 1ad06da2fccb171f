-- An entry of `task` was found where its record, of limit key `group` or none, is not: other software removed the record
-- that made the entry. Its limit key is known from :keys; what it held there ends.
do
  local live = group
  local group = redis.call('HGET', settings .. ':keys', task)
  if group then
    redis.call('ZREM', settings .. ':limits', group .. task)
    if group ~= live then redis.call('HDEL', settings .. ':keys', task) end
    -- include queue_release
  end
end
