-- Ends the script if the record's guard refuses the token (authority, fence_key, fence; no fence: no token). A late
-- write is published for viewers, on the record's channel, where watchers read the record once in vain:
--   {-2, highest fence}                    a lower fence
--   {-4, authority, lock key, fence}       another lock's
if fence ~= '' and fields[6] then
  if fields[7] ~= authority or fields[8] ~= fence_key then return {-4, fields[7], fields[8], fields[6]} end
  if tonumber(fence) < tonumber(fields[6]) then
    local news = 'stale ' .. fence .. ' ' .. fields[6]
    -- include task_publish
    return {-2, fields[6]}
  end
end
