-- index: of `owner`, whose record at KEYS[1] has expired; nil for an owner that is not in the form of an id, which names
-- no key, and without index_prefix: then it expires on its own. Ends the script with {-9, key} if it must be declared.
local index
if index_prefix and #owner == 22 and not string.find(owner, '[^%w_-]') then
  index = index_prefix .. owner
  local needed = index
  -- include declared
end
