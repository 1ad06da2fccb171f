-- The records at several lock keys. Changes nothing.
-- Without it, locks cannot be listed.
--
-- KEYS lock keys
--
-- returns, for each key in turn, the record's JSON; nil if there is no live lock
-- include server_time
local records = {}
for i, key in ipairs(KEYS) do
  local record = redis.pcall('GET', key) -- pcall: another type's value is no lock
  records[i] = false
  if type(record) == 'string' then
    -- include read_record
    if owner then
      -- include liveness
      if live then records[i] = record end
    end
  end
end
return records
