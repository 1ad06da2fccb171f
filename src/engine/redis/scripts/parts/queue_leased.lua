-- group_leased: how many tasks of the group are leased, expired leases included until they are removed.
local group_leased = group and redis.call('ZLEXCOUNT', settings .. ':limits', '[' .. group, '(' .. group .. '\255') or 0
