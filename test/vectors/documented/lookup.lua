-- Lookup Script Signature:
-- KEYS[1] = lockIdKey (e.g., "syncguard:id:abc123xyz")
-- ARGV[1] = lockId
-- ARGV[2] = toleranceMs

local lockIdKey = KEYS[1]
local lockId = ARGV[1]
local toleranceMs = tonumber(ARGV[2])

-- 1. Get server time for expiry check
local time = redis.call('TIME')
local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)

-- 2. Get lockKey from index (ADR-013: index stores full lockKey directly)
local lockKey = redis.call('GET', lockIdKey)
if not lockKey then return nil end  -- Lock not found

-- 3. Fetch main lock data
local lockData = redis.call('GET', lockKey)
if not lockData then return nil end  -- Lock not found

-- 4. Parse and verify ownership
local data = cjson.decode(lockData)
if data.lockId ~= lockId then return nil end  -- Ownership mismatch

-- 5. Check expiration using canonical predicate
if data.expiresAtMs <= (nowMs - toleranceMs) then return nil end  -- Expired

-- 6. Return lock info (backend converts to LockInfo)
return lockData  -- Contains all fields needed for LockInfo
