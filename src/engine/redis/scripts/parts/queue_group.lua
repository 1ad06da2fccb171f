-- group: the length of the task's limit key, and the key; nil if it has none. group_limit: how many tasks of it may be
-- leased. The members of :parked and :limits that begin with it are those of this key, in the order of their bytes.
local group, group_limit
if string.byte(queue, 154) > 49 then
  local size = string.sub(queue, 169, 173)
  group_limit = tonumber(string.sub(queue, 159, 168))
  group = struct.pack('>I2', size) .. string.sub(queue, 174, 173 + size)
end
