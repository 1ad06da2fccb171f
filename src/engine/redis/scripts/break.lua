-- Frees the lock of an id as release does, for an operator, and leaves a mark in the place of the index: so that
-- the holder's own release, if it has to be repeated, is not taken for done.
-- Without it, locks cannot be broken.
--
-- KEYS, ARGV[1], ARGV[2] and returns as release    ARGV[3] how long the mark outlives the lease, in ms
-- ARGV[4] how much of the lease it lasts for at most, in ms
--
-- The mark is a byte that is in no lock key, because those are UTF-8.
local lease_left
local function release()
  -- include find_held
  lease_left = math.min(math.max(expires - now, 0), tonumber(ARGV[4]))
  local news = 'broken'
  -- include free_held
end
local code = release()
if code == 1 then redis.call('SET', KEYS[1], '\255', 'PX', string.format('%d', lease_left + ARGV[3])) end
return code
