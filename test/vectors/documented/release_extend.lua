-- Release Script Signature:
-- KEYS[1] = lockIdKey (e.g., "syncguard:id:abc123xyz")
-- ARGV[1] = lockId
-- ARGV[2] = toleranceMs

-- Extend Script Signature (includes ARGV[3]):
-- ARGV[3] = ttlMs (extend only)
--
-- @returns 1 (release success) or {1, newExpiresAtMs} (extend success), 0 (ownership mismatch), -1 (not found), -2 (expired)

local lockIdKey = KEYS[1]
local lockId = ARGV[1]
local toleranceMs = tonumber(ARGV[2])
local ttlMs = tonumber(ARGV[3]) -- Only for extend operation

-- 1. Get server time (using canonical time calculation)
local time = redis.call('TIME')
local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)

-- 2. Get lockKey from index (ADR-013: index stores full lockKey directly)
local lockKey = redis.call('GET', lockIdKey)
if not lockKey then return -1 end  -- Lock not found

-- 3. Verify lock data exists and parse
local lockData = redis.call('GET', lockKey)
if not lockData then return -1 end  -- Lock not found

local data = cjson.decode(lockData)

-- 4. Check expiration (using canonical liveness predicate)
if data.expiresAtMs <= (nowMs - toleranceMs) then
  -- Clean up expired lock
  redis.call('DEL', lockKey, lockIdKey)
  return -2  -- Lock expired
end

-- 5. Verify ownership (ADR-003: explicit verification required)
if data.lockId ~= lockId then return 0 end  -- Ownership mismatch

-- 6. Perform operation
-- For release: delete both keys
if not ttlMs then
  redis.call('DEL', lockKey, lockIdKey)
  return 1  -- Release success
end

-- For extend: update TTL (replaces remaining TTL entirely)
local newExpiresAtMs = nowMs + ttlMs
data.expiresAtMs = newExpiresAtMs
redis.call('SET', lockKey, cjson.encode(data), 'PX', ttlMs)
redis.call('SET', lockIdKey, lockKey, 'PX', ttlMs)  -- ADR-013: Re-store full lockKey
return {1, newExpiresAtMs}  -- Extend success with authoritative expiresAtMs
