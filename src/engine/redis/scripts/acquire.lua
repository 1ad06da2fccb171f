-- Acquires a lock for an id, if it is free.
-- Without it, locks cannot be acquired.
--
-- KEYS[1] lock key    KEYS[2] index key of the id    KEYS[3] fence counter    KEYS[4] authority
-- ARGV[1] lock id     ARGV[2] ttl in ms
-- ARGV[3] user key as a JSON string; with a label of the holder, followed by ,"holder": and the label as another
-- ARGV[4] floor of the fence, 15 digits: the fence is above it (docs/internals/redis.md)
-- ARGV[5] until when the counter is needed, in ms; '': forever; omitted: the counter's expiry is not changed
--
-- returns {1, fence, expiresAtMs, authority}   granted
--         {1, fence, expiresAtMs, authority, n}   granted; the counter was n, below the floor
--         {1, fence, expiresAtMs, authority, -1}   already held by this id: repeats the first answer
--         n > 0                     held by another id; the lease expires in n ms unless it is renewed
--         'n,"holder":"..."}'       the same, if that lock has a label
--         -3                        the value at the lock key is not a lock record
--         -4                        the fence counter is exhausted
--         -5                        the id holds another key
--         -6                        the id was released or broken: its release overtook this request
--         -7                        the fence counter is below zero
--         {-9, key}                 to be sent again with that key declared
--
-- A refusal is a plain number, or one text with the label, because an array costs a tenth of the whole call. A
-- refusal uses up no fence.
-- A script that fails is not rolled back, so what can fail on odd data (INCR on a counter that is no number)
-- comes before the first write. Redis drops a key *after* the millisecond of its PXAT, so both keys end one
-- millisecond before expiresAtMs: then they are gone when it begins. PX would count from a clock that has moved
-- on since TIME.
--
-- The authority is read with the grant, so that a fence is never labelled with a store that has lost its data.
-- One that is missing is made here: from the lock id, which is never used again, and the time.
local record = redis.call('GET', KEYS[1])
-- include server_time
local former_index
if record then
  -- include read_record
  if not owner then return -3 end
  -- include liveness
  if live then
    if owner == ARGV[1] then
      -- include authority
      return {1, own_form and string.sub(record, 73, 87) or data.fence, expires, authority, -1}
    end
    local left = expires - now
    if left <= 0 then
      -- In its last millisecond, as SyncGuard's records are seen; or without a TTL, then `live` says how long.
      -- pcall: a user without the right to ask tries again soon.
      left = redis.pcall('PTTL', KEYS[1]) == -1 and left + 1000 or 1
    end
    if own_form then
      -- include label_place
      return label and string.format('%d', left) .. string.sub(record, label) or left
    end
    if type(data.holder) ~= 'string' then return left end
    return string.format('%d', left) .. ',"holder":' .. cjson.encode(data.holder) .. '}'
  end
  -- include whole_record
  -- Under a prefix of more than 948 bytes an index key ends in a hash, and the id of an owner leads to none.
  local index_prefix = string.sub(KEYS[2], -22) == ARGV[1] and string.sub(KEYS[2], 1, -23)
  -- include owner_index
  former_index = index
end

local count = redis.call('INCR', KEYS[3])
local floor = tonumber(ARGV[4])
if count > 900000000000000 or floor >= 900000000000000 then return -4 end
if count < 1 then
  redis.call('SET', KEYS[3], string.format('%d', count - 1)) -- must not count up to fences that were granted
  return -7
end
local expires = now + ARGV[2]
local before = count <= floor and count - 1 or nil
if ARGV[5] then
  -- include counter_end
elseif before then
  count = floor + 1
  redis.call('SET', KEYS[3], string.format('%d', count), 'KEEPTTL')
end
-- include authority
local fence = string.format('%015d', count)
local at = string.format('%d', expires)
local gone_at = string.format('%d', expires - 1)

if former_index then
  local index = former_index
  -- include drop_index
end
if not redis.call('SET', KEYS[2], KEYS[1], 'PXAT', gone_at, 'NX') then
  local index = redis.call('GET', KEYS[2])
  if index == '' or index == '\255' then return -6 end -- a tombstone, or the mark of a break
  if index ~= KEYS[1] then
    local needed = index
    -- include declared
    local record = redis.call('GET', index)
    if record then
      -- include read_record
      if owner == ARGV[1] then
        -- include liveness
        if live then return -5 end
      end
    end
  end
  redis.call('SET', KEYS[2], KEYS[1], 'PXAT', gone_at)
end
redis.call('SET', KEYS[1], '{"lockId":"' .. ARGV[1] .. '","expiresAtMs":' .. at .. ',"fence":"' .. fence
  .. '","acquiredAtMs":' .. string.format('%d', now) .. ',"key":' .. ARGV[3] .. '}', 'PXAT', gone_at)
return {1, fence, expires, authority, before}
