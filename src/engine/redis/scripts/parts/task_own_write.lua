-- written: the version that this very request made of the record, if an earlier copy of it did. `write` has the
-- ids of our last eight writes and the versions they made, newest first; other software leaves it as it is.
local written
if fields[9] then
  local _, found = string.find(fields[9], id, 1, true)
  written = found and tonumber(string.match(fields[9], '^:(%d+)', found + 1))
end
