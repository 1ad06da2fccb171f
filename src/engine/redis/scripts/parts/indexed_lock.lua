-- By the index of an id, sets index, its value; lock_key; record, the value there. No record: the id has no lock.
-- Ends the script with {-9, key} if that key must be declared.
-- KEYS[1] index key of the id    ARGV[1] lock id
--
-- An index holds the lock key; that of SyncGuard 1.0 holds the user key, without the prefix. A value that does not
-- begin with the prefix is certainly a user key, and no key is read by that name: it is not ours, and a user may
-- have no right to it. A value that begins with the prefix may be either; the one whose record names the id counts.
index = redis.call('GET', KEYS[1])
lock_key = index
if index and index ~= '' and index ~= '\255' then -- no tombstone, nor the mark of a break
  -- Up to "id:" and the id, or to the hash in their place.
  local head = string.sub(KEYS[1], 1, string.sub(KEYS[1], -22) == ARGV[1] and -26 or -23)
  if string.sub(index, 1, #head) == head then
    local needed = index
    -- include declared
    record = redis.call('GET', index)
  end
  if not record or not string.find(record, ARGV[1], 1, true) then
    local needed = head .. index
    -- include declared
    local old = redis.pcall('GET', needed) -- pcall: another type's value is no lock
    if type(old) == 'string' and string.find(old, ARGV[1], 1, true) then
      lock_key, record = needed, old
    end
  end
end
