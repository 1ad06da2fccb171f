-- Removes from the index those of the tasks in ARGV[14...] whose records, KEYS[3...], are dead; count is then less by
-- those. `checked`: '=' and the last of them that is not. A record that cannot be read is one.
local dead = {}
for i = 3, #KEYS do
  local ends = redis.pcall('HGET', KEYS[i], 'expires_at')
  local gone = false
  if type(ends) == 'string' then
    gone = string.find(ends, '^%-?%d+$') and ends * 1000 <= now
  elseif ends == false then
    gone = redis.call('EXISTS', KEYS[i]) == 0
  end
  if gone then dead[#dead + 1] = ARGV[i + 11] else checked = '=' .. ARGV[i + 11] end
end
if #dead > 0 then count = count - redis.call('ZREM', index, unpack(dead)) end
