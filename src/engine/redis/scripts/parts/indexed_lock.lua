-- By the index of an id, sets index, its value; lock_key; record, the value there. No record: the id holds nothing.
-- KEYS[1] index key of the id    ARGV[1] lock id
--
-- An index is the lock key. SyncGuard 1.0 stores the user key, without the prefix. What does not begin with the
-- prefix is that for certain, and is not read as it is: it is none of our keys, and a user may have no right to it.
-- What does begin with it may be either; then the one counts whose record names the id.
index = redis.call('GET', KEYS[1])
lock_key = index
if index and index ~= '' and index ~= '\255' then -- no tombstone, nor the mark of a break
  local head = string.sub(KEYS[1], 1, -26) -- up to "id:" and the id
  if string.sub(index, 1, #head) == head then record = redis.call('GET', index) end
  if not record or not string.find(record, ARGV[1], 1, true) then
    local old = redis.pcall('GET', head .. index) -- pcall: another type's value is no lock
    if type(old) == 'string' and string.find(old, ARGV[1], 1, true) then
      lock_key, record = head .. index, old
    end
  end
end
