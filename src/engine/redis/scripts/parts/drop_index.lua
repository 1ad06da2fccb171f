-- An owner's index goes with its record, unless that id has moved on to another lock.
if index and redis.call('GET', index) == KEYS[1] then redis.call('DEL', index) end
