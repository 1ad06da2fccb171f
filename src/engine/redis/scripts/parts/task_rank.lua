-- rank: how many members of the index come before the place (after_score, after_task), the place itself
-- included if `inclusive`, whether or not there is such a member. Members of one score are in the order of
-- their bytes; Lua's own comparison is the locale's.
local function is_before(name)
  local length = math.min(#name, #after_task)
  for i = 1, length do
    local theirs, ours = string.byte(name, i), string.byte(after_task, i)
    if theirs ~= ours then return theirs < ours end
  end
  if #name == #after_task then return inclusive end
  return #name < #after_task
end
local rank
local score = redis.call('ZSCORE', index, after_task)
if score and tonumber(score) == tonumber(after_score) then -- it is there still, as it mostly is
  rank = redis.call('ZRANK', index, after_task) + (inclusive and 1 or 0)
else
  rank = redis.call('ZCOUNT', index, '-inf', '(' .. after_score)
  local beyond = redis.call('ZCOUNT', index, '-inf', after_score)
  while rank < beyond do
    local middle = math.floor((rank + beyond) / 2)
    if is_before(redis.call('ZRANGE', index, middle, middle)[1]) then rank = middle + 1 else beyond = middle end
  end
end
