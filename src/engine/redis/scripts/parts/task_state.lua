-- state: what `fields`, read from `key`, amount to at `now`; and version.
--   'absent'    the key does not exist
--   'expired'   counts as absent (Redis drops it unless it lost its TTL)
--   'bad'       its version or data is missing or invalid
--   'live'
-- A version that a Lua number cannot increment exactly is bad too.
local state, version = 'live', nil
if fields[3] and string.find(fields[3], '^%-?%d+$') and fields[3] * 1000 <= now then
  state = 'expired'
elseif not fields[1] and not fields[2] and redis.call('EXISTS', key) == 0 then
  state = 'absent'
else
  version = fields[1] and not string.find(fields[1], '%D') and tonumber(fields[1])
  if not version or version >= 9007199254740991 or not fields[2]
    or (fields[3] and not string.find(fields[3], '^%-?%d+$')) then
    state = 'bad'
  end
end
