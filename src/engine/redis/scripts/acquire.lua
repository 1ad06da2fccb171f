-- Takes a lock for an id, if nobody holds it.
--
-- KEYS[1] lock key    KEYS[2] index key of the id    KEYS[3] fence counter
-- ARGV[1] lock id     ARGV[2] ttl in ms              ARGV[3] user key as a JSON string
--
-- returns {1, fence, expiresAtMs}   granted; or held by this id already: the first answer again
--         n > 0                     held by another, for n ms more unless it is renewed
--         -3                        the value at the lock key is no lock record
--         -4                        the fence counter is used up
--         -5                        the id holds another key
--         -6                        the id was released: this request was overtaken by its own release
--
-- A refusal is a plain number because an array costs a tenth of the whole call. A refusal uses up no fence.
-- A script that fails is not rolled back, so what can fail on somebody's odd data (INCR on a counter that is
-- no number) comes before the first write. Both keys end with PXAT at exactly expiresAtMs;
-- PX would count from a clock that has moved on since TIME.
local record = redis.call('GET', KEYS[1])
-- include server_time
local former
if record then
  -- include read_record
  if not owner then return -3 end
  -- include liveness
  if live then
    if owner == ARGV[1] then return {1, own_form and string.sub(record, 73, 87) or data.fence, expires} end
    local left = expires - now
    if left <= 0 then left = left + 1000 end -- past its time, it counts for as long as `live` says
    return left
  end
  -- include whole_record
  former = owner
end

local count = redis.call('INCR', KEYS[3])
if count > 900000000000000 then return -4 end
local fence = string.format('%015d', count)
local expires = now + ARGV[2]
local at = string.format('%d', expires)

if former then
  local owner, index_prefix = former, string.sub(KEYS[2], 1, -23)
  -- include drop_index
end
if not redis.call('SET', KEYS[2], KEYS[1], 'PXAT', at, 'NX') then
  local index = redis.call('GET', KEYS[2])
  if index == '' then return -6 end -- a tombstone
  if index ~= KEYS[1] then
    local record = redis.call('GET', index)
    if record then
      -- include read_record
      if owner == ARGV[1] then
        -- include liveness
        if live then return -5 end
      end
    end
  end
  redis.call('SET', KEYS[2], KEYS[1], 'PXAT', at)
end
redis.call('SET', KEYS[1], '{"lockId":"' .. ARGV[1] .. '","expiresAtMs":' .. at .. ',"fence":"' .. fence
  .. '","acquiredAtMs":' .. string.format('%d', now) .. ',"key":' .. ARGV[3] .. '}', 'PXAT', at)
return {1, fence, expires}
