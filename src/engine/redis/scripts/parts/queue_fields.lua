-- The record of `task`: key, fields, state, version, and queue: its state in the queue, nil if it has none. It may be
-- gone, or be another type's value. failed: an error if it is not known which, see queue_unreached.
local key = hash_prefix .. task
local fields = redis.pcall('HMGET', key, 'version', 'data', 'expires_at', 'incarnation', 'origin', 'fence',
  'fence_authority', 'fence_key', 'queue')
local failed
if fields.err then
  if not string.find(fields.err, '^WRONGTYPE') then failed = fields end
  fields = failed and {''} or {}
end
-- include task_state
-- include task_guard
local is_missing = state == 'absent' and not failed
-- include queue_unreached
local queue = state == 'live' and fields[4] and fields[9]
-- include queue_known
