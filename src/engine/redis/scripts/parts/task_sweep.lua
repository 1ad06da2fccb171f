-- Removes dead members from the index until there is room for one record more, or no more are dead: count,
-- which was all of them, is then the live ones'. hash_prefix is what a record's key has before the task.
-- A record that cannot be read is one.
local at = 0
while count >= limit do
  local members = redis.call('ZRANGE', index, at, at + 99)
  if #members == 0 then break end
  local dead = {}
  for _, member in ipairs(members) do
    local hash = hash_prefix .. member
    local ends = redis.pcall('HGET', hash, 'expires_at')
    local gone = false
    if type(ends) == 'string' then
      gone = string.find(ends, '^%-?%d+$') and ends * 1000 <= now
    elseif ends == false then
      gone = redis.call('EXISTS', hash) == 0
    end
    if gone then dead[#dead + 1] = member end
    if count - #dead < limit then break end
  end
  if #dead > 0 then redis.call('ZREM', index, unpack(dead)) end
  count = count - #dead
  at = at + #members - #dead
end
