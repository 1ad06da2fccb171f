-- The keys of a queue, in the order in which every script declares them. Further ones are named after the settings:
-- :parked and :limits (sorted sets), :keys (a hash) for tasks with a limit key, :dead (a sorted set) for dead letters.
local ready, delayed, leases, exhausted, finished, settings, index, waiters =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local released = 0 -- how many parked tasks this call has made ready
