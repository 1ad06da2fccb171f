-- group: the length of the task's limit key, and the key; nil if it has none. group_limit: how many tasks of it may be
-- leased. The members of :parked and :limits that begin with it are those of this key, in the order of their bytes.
local group, group_limit
if string.byte(queue, 90) > 1 then
  local size
  group_limit, size = struct.unpack('>I4I2', queue, 99)
  group = string.sub(queue, 103, 104 + size)
end
