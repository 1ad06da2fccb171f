-- failed: an error if the record at `key`, which was found missing (is_missing), may be on another node. While a slot of a
-- cluster moves, the entries of a queue and its records are on two nodes: the one that they leave answers with an error,
-- and the one that they reach finds nothing, but refuses a command that names a missing key and another one. Then the
-- entry must stay: the task would never be started.
if is_missing then
  local there = redis.pcall('EXISTS', key, settings)
  if type(there) == 'table' then failed = there end
end
