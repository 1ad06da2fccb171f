-- A page of an owner's records; removes dead members of the index on the way.
--
-- KEYS[1] the owner's index
-- ARGV[1] the part of a record's key before the task    ARGV[2] '1': newest first
-- ARGV[3] how many records at most    ARGV[4] how many bytes of data at most, beyond the first record
-- ARGV[5], ARGV[6] score and task to go on behind; or neither
--
-- returns {1 or 0: there are more, score, task: where they begin, behind this,
--          then for each record: task, score, version, data, incarnation, origin, fence, authority, lock key;
--          for one that cannot be read: task, score (nil if that is not a whole number), -3, and six times nil}
--         {-3, task}   a thousand members and more have no whole number for a score
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
local page, n, count, bytes, seen, dead, more = {0, false, false}, 3, 0, 0, 0, {}, false
local settled = n -- how much of the page is before the place that page[2] and page[3] name
while not more do
  if seen > limit + 1000 then
    if not page[2] then
      if #dead > 0 then redis.pcall('ZREM', index, unpack(dead)) end
      return {-3, page[4] or dead[1]}
    end
    more = true
    break
  end
  local members = newest_first and redis.call('ZREVRANGE', index, from, from + limit, 'WITHSCORES')
    or redis.call('ZRANGE', index, from, from + limit, 'WITHSCORES')
  if #members == 0 then break end
  for i = 1, #members, 2 do
    local task, score = members[i], members[i + 1]
    local key = hash_prefix .. task
    local fields = redis.pcall('HMGET', key, 'version', 'data', 'expires_at', 'incarnation', 'origin', 'fence',
      'fence_authority', 'fence_key')
    if fields.err then
      if not string.find(fields.err, '^WRONGTYPE') then return fields end
      fields = {}
    end
    -- include task_state
    -- include task_guard
    -- Without a place a member cannot end a page, so it is not counted; behind the last place it is left to the
    -- next page.
    local placed = string.find(score, '^%-?%d+$')
    if state == 'live' or state == 'bad' then
      local size = state == 'live' and #fields[2] or 0
      if placed and (count == limit or (count > 0 and bytes + size > most_bytes)) then
        more = true
        break
      end
      if state == 'live' and placed then
        -- include task_incarnation
        page[n + 1], page[n + 2], page[n + 3], page[n + 4], page[n + 5], page[n + 6], page[n + 7], page[n + 8],
          page[n + 9] = task, score, version, fields[2], incarnation, fields[5], fields[6], fields[7], fields[8]
      else
        page[n + 1], page[n + 2], page[n + 3] = task, placed and score or false, -3
        for part = 4, 9 do page[n + part] = false end
      end
      n = n + 9
      if placed then count, bytes = count + 1, bytes + size end
    else
      dead[#dead + 1] = task
    end
    if placed then page[2], page[3], settled = score, task, n end
    seen = seen + 1
  end
  from = from + #members / 2
end
if #dead > 0 then redis.pcall('ZREM', index, unpack(dead)) end
if more then
  page[1] = 1
  for part = settled + 1, n do page[part] = nil end
end
return page
