-- Sets the expiry of an id's lock to now + ttl, earlier or later than before.
-- Without it, locks cannot be extended.
--
-- KEYS[1] index key of the id    KEYS[2] lock key, if the caller knows it: then only there; else as in parts/find_held.lua
-- ARGV[1] lock id                ARGV[2] ttl in ms
-- ARGV[3] for a lock that is adopted: ,"holder": and the new label as a JSON string; '': the lock gets no label.
--         Omitted: the label stays
--
-- returns {1, expiresAtMs}   extended
--         0 another owner   -1 absent   -2 expired   -3 not a lock record
--         {-9, key} nothing was done: to be sent again with that key declared
-- include find_held
local until_ms = now + ARGV[2]
local at = string.format('%d', until_ms)
local gone_at = string.format('%d', until_ms - 1) -- as in acquire
if own_form then
  if ARGV[3] then
    -- include label_place
    record = string.sub(record, 1, label and label - 1 or -2) .. ARGV[3] .. '}'
  end
  record = string.sub(record, 1, 49) .. at .. string.sub(record, 63)
else
  data.expiresAtMs = until_ms
  if ARGV[3] then data.holder = cjson.decode('{' .. string.sub(ARGV[3], 2) .. '}').holder end
  record = cjson.encode(data)
end
-- A server that is full refuses SET, but not in a script that has written already; PEXPIREAT is never refused.
-- So a lock is kept while there is no room for new ones. pcall: a user without that right loses this alone.
redis.pcall('PEXPIREAT', KEYS[1], gone_at)
redis.call('SET', lock_key, record, 'PXAT', gone_at)
redis.call('SET', KEYS[1], index, 'PXAT', gone_at)
return {1, until_ms}
