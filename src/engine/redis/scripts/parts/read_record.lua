-- From `record`, the value at a lock key: owner and expires; no owner if it is no lock record.
-- `own_form`: it is as Holdfast writes it; else `data`: its fields.
--
-- Holdfast writes lock id, expiry and fence first, so they are found at fixed places, and nothing a key
-- contains can come before them or be taken for them. (A 13-digit expiry: from 2001 to 2286.) Cutting
-- strings there takes a fifth of decoding the whole. Other records are decoded: SyncGuard's cjson
-- shuffles the fields.
local owner, expires, own_form, data
if string.sub(record, 1, 11) == '{"lockId":"' and string.sub(record, 34, 49) == '","expiresAtMs":'
  and string.sub(record, 63, 72) == ',"fence":"' then
  own_form, owner, expires = true, string.sub(record, 12, 33), tonumber(string.sub(record, 50, 62))
end
if not expires then
  own_form, owner = false, nil
  local decoded
  decoded, data = pcall(cjson.decode, record)
  if decoded and type(data) == 'table' and type(data.lockId) == 'string'
    and type(data.expiresAtMs) == 'number' and type(data.fence) == 'string' then
    owner, expires = data.lockId, data.expiresAtMs
  end
end
