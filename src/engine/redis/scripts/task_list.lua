-- A page of an owner's records, and on the way the end of what is dead in the index.
--
-- KEYS[1] the owner's index
-- ARGV[1] what a record's key has before the task    ARGV[2] '1': newest first
-- ARGV[3] how many records at most    ARGV[4] how many bytes of data at most, beyond the first record
-- ARGV[5], ARGV[6] score and task to go on behind; or neither
--
-- returns {1 or 0: there are more, score, task: where they begin, behind this,
--          then for each record: task, score, version, data, incarnation, origin, fence, authority, lock key}
--         {-3, task}   what is at that task's key is no record
-- Looks at a bounded number of dead members; so there may be more though the page has room, or nothing.
-- The records' keys are made from ARGV[1]: on a cluster they would have to be in one slot.
local index, hash_prefix, newest_first = KEYS[1], ARGV[1], ARGV[2] == '1'
local limit, most_bytes = tonumber(ARGV[3]), tonumber(ARGV[4])
local after_score, after_task = ARGV[5], ARGV[6]
-- include server_time
local from = 0 -- in the order of the page
if after_score then
  local inclusive = not newest_first
  -- include task_rank
  from = newest_first and redis.call('ZCARD', index) - rank or rank
end
local range = newest_first and 'ZREVRANGE' or 'ZRANGE'
local page, n, count, bytes, seen, dead, more = {0, false, false}, 3, 0, 0, 0, {}, false
while not more do
  if seen > limit + 1000 then
    more = true
    break
  end
  local members = redis.call(range, index, from, from + limit, 'WITHSCORES')
  if #members == 0 then break end
  for i = 1, #members, 2 do
    local task, score = members[i], members[i + 1]
    local key = hash_prefix .. task
    local fields = redis.pcall('HMGET', key, 'version', 'data', 'expires_at', 'incarnation', 'origin', 'fence',
      'fence_authority', 'fence_key')
    if fields.err then return {-3, task} end
    -- include task_state
    -- include task_guard
    local placed = string.find(score, '^%-?%d+$')
    if state == 'bad' or (state == 'live' and not placed) then return {-3, task} end
    if state == 'live' then
      if count == limit or (count > 0 and bytes + #fields[2] > most_bytes) then
        more = true
        break
      end
      -- include task_incarnation
      count, bytes = count + 1, bytes + #fields[2]
      page[n + 1], page[n + 2], page[n + 3], page[n + 4], page[n + 5], page[n + 6], page[n + 7], page[n + 8],
        page[n + 9] = task, score, version, fields[2], incarnation, fields[5], fields[6], fields[7], fields[8]
      n = n + 9
    else
      dead[#dead + 1] = task
    end
    if placed then page[2], page[3] = score, task end
    seen = seen + 1
  end
  from = from + #members / 2
end
if #dead > 0 then redis.pcall('ZREM', index, unpack(dead)) end
if more then page[1] = 1 end
return page
