-- An owner's index goes with its record, unless that id has moved on to another lock. Only an id in the form
-- of one names a key.
if #owner == 22 and not string.find(owner, '[^%w_-]') then
  local index = index_prefix .. owner
  if redis.call('GET', index) == KEYS[1] then redis.call('DEL', index) end
end
