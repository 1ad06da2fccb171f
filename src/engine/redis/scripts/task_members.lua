-- The next members of an owner's index: whose records task_list reads then. Changes nothing.
-- Without it, tasks cannot be listed.
--
-- KEYS[1] the owner's index
-- ARGV[1] '1': newest first    ARGV[2] how many members at most
-- ARGV[3], ARGV[4] score and task to go on behind; or neither
--
-- returns {1 or 0: there are more, then score and task of each}
--         {-3, task}   a thousand members and more have no whole number for a score
-- A page ends at a member whose score is a whole number. So there are more members than asked for if those have none.
local index, newest_first, limit = KEYS[1], ARGV[1] == '1', tonumber(ARGV[2])
local after_score, after_task = ARGV[3], ARGV[4]
local from = 0 -- in the order of the page
if after_score then
  local inclusive = not newest_first
  -- include task_rank
  from = newest_first and redis.call('ZCARD', index) - rank or rank
end
local answer, more, placed
while true do
  local members = newest_first and redis.call('ZREVRANGE', index, from, from + limit, 'WITHSCORES')
    or redis.call('ZRANGE', index, from, from + limit, 'WITHSCORES')
  more = #members > 2 * limit
  answer = {more and 1 or 0}
  for i = 1, math.min(#members, 2 * limit), 2 do
    answer[i + 1], answer[i + 2] = members[i + 1], members[i]
    placed = placed or string.find(members[i + 1], '^%-?%d+$')
  end
  if placed or not more then return answer end
  if limit > 1000 then return {-3, members[1]} end
  limit = limit + 1000
end
