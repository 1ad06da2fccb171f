-- fields: all of the record at `key` that we know, in this order.
local fields = redis.call('HMGET', key, 'version', 'data', 'expires_at', 'incarnation', 'origin', 'fence',
  'fence_authority', 'fence_key', 'write', 'queue')
