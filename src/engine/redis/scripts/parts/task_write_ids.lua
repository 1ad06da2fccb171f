-- write: the ids of our last eight writes and the versions they made, with this one (id, version_text) first.
local write = id .. ':' .. version_text
if fields[9] then
  -- As many as eight of this one's length, and none in part: a version that lost digits would be another.
  local longest = 8 * (#write + 1)
  write = write .. ' ' .. fields[9]
  if #write > longest then write = string.match(string.sub(write, 1, longest), '^(.*) ') end
end
