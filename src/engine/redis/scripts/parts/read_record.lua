-- From `record`, the value at a lock key: owner, expires, fence; no owner if it is no lock record.
-- `rest`: where the text behind the expiry begins in a record as Holdfast writes it; else `data`: its fields.
--
-- Holdfast writes these three fields first, so one match that is anchored to the beginning reads them:
-- nothing a key contains can come before them, and no key, however it looks, can be taken for them.
-- Anybody else's record (SyncGuard's cjson shuffles the fields) is decoded.
local owner, expires, rest, fence =
  string.match(record, '^{"lockId":"([%w_-]+)","expiresAtMs":(%d+)(),"fence":"(%d+)",')
local data
if owner then
  expires = tonumber(expires)
else
  local decoded
  decoded, data = pcall(cjson.decode, record)
  if decoded and type(data) == 'table' and type(data.lockId) == 'string'
    and type(data.expiresAtMs) == 'number' and type(data.fence) == 'string' then
    owner, expires, fence = data.lockId, data.expiresAtMs, data.fence
  end
end
