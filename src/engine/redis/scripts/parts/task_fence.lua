-- Ends the script if the record's guard refuses the token (authority, fence_key, fence; no fence: no token):
--   {-2, highest fence}                    a lower fence
--   {-4, authority, lock key, fence}       another lock's
if fence ~= '' and fields[6] then
  if fields[7] ~= authority or fields[8] ~= fence_key then return {-4, fields[7], fields[8], fields[6]} end
  if tonumber(fence) < tonumber(fields[6]) then return {-2, fields[6]} end
end
