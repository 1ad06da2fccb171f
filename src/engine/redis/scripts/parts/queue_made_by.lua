-- made: the version that an earlier copy of this request (id) made of a task that is gone, because it is not kept: see
-- queue_made. meant: its incarnation, '' if that is unknown.
local made = meant ~= '' and redis.call('GET', settings .. ':made:' .. meant)
made = made and string.sub(made, 1, #id) == id and tonumber(string.match(made, '^:(%d+)$', #id + 1))
