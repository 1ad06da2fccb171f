-- Claims the next tasks of a queue.
-- Without it, tasks cannot be claimed.
--
-- KEYS[1..8] as in parts/queue_names.lua    KEYS[9] where the claims of this process and slot are remembered
-- ARGV[1] the part of a record's key before the task    ARGV[2] the same of its channel
-- ARGV[3] the part of a process' channel before its name    ARGV[4] the kind of these channels
-- ARGV[5] the part of a lock key before the task    ARGV[6] process    ARGV[7] whether it waits
-- ARGV[8] number of this call    ARGV[9] lowest fence - 1    ARGV[10] worker    ARGV[11] lease in ms    ARGV[12] limit
-- ARGV[13] for how many ms the caller has searched
--
-- returns as parts/queue_take.lua says. The records are chosen here, so their keys cannot be declared: they are made
-- from ARGV[1], and have the slot of the others.
-- include queue_names
local memory, hash_prefix, channel_prefix, wake_prefix, wake_mode = KEYS[9], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local lock_prefix, process, waiting, call, floor = ARGV[5], ARGV[6], ARGV[7], tonumber(ARGV[8]), tonumber(ARGV[9])
local worker, lease, limit, searched = ARGV[10], tonumber(ARGV[11]), tonumber(ARGV[12]), tonumber(ARGV[13])
-- include server_time
local answer, n = {}, 0
-- include queue_take
return answer
