-- The records of some members of an owner's index (task_members); removes those that are dead from the index.
-- Without it, tasks cannot be listed.
--
-- KEYS[1] the owner's index    KEYS[2...] the members' records
-- ARGV[1] how many records at most    ARGV[2] how many bytes of data at most
-- ARGV[3] '1': the first record may have any size    ARGV[4] '1': the index has more members
-- ARGV[5...] score and task of each member
--
-- returns {0, 1 or 2: there are more, and the page is full (1) or has room (2), score, task: where they begin, behind
--          this,
--          then for each record: task, score, version, data, incarnation, origin, fence, authority, lock key, queue;
--          for one that cannot be read: task, score (nil if that is not a whole number), -3, and seven times nil}
-- A member that has another place by now, or none, is passed over.
local index, limit, most_bytes, any_size = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3] == '1'
-- include server_time
local page, n, count, bytes, dead = {0, false, false}, 3, 0, 0, {}
local settled = n -- how much of the page is before the place that page[2] and page[3] name
for member = 2, #KEYS do
  local key, score, task = KEYS[member], ARGV[2 * member + 1], ARGV[2 * member + 2]
  -- Without a place a member cannot end a page, so it is not counted; behind the last place it is left to the
  -- next page.
  local placed = string.find(score, '^%-?%d+$')
  local score_now = redis.call('ZSCORE', index, task)
  if score_now and tonumber(score_now) == tonumber(score) then
    local fields = redis.pcall('HMGET', key, 'version', 'data', 'expires_at', 'incarnation', 'origin', 'fence',
      'fence_authority', 'fence_key', 'queue')
    if fields.err then
      if not string.find(fields.err, '^WRONGTYPE') then return fields end
      fields = {}
    end
    -- include task_state
    -- include task_guard
    if state == 'live' or state == 'bad' then
      local size = state == 'live' and #fields[2] or 0
      if placed and (count == limit or (bytes + size > most_bytes and not (any_size and count == 0))) then
        page[1] = 1
        break
      end
      if state == 'live' and placed then
        -- include task_incarnation
        page[n + 1], page[n + 2], page[n + 3], page[n + 4], page[n + 5], page[n + 6], page[n + 7], page[n + 8],
          page[n + 9], page[n + 10] = task, score, version, fields[2], incarnation, fields[5], fields[6], fields[7],
          fields[8], fields[9]
      else
        page[n + 1], page[n + 2], page[n + 3] = task, placed and score or false, -3
        for part = 4, 10 do page[n + part] = false end
      end
      n = n + 10
      if placed then count, bytes = count + 1, bytes + size end
    else
      dead[#dead + 1] = task
    end
  end
  if placed then page[2], page[3], settled = score, task, n end
end
if #dead > 0 then redis.pcall('ZREM', index, unpack(dead)) end
if page[1] == 0 and ARGV[4] == '1' then page[1] = 2 end
if page[1] ~= 0 then
  for part = settled + 1, n do page[part] = nil end
end
return page
