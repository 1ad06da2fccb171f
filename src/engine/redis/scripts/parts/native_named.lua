-- Adds field u to the state at lock_key, if that refers to it: the name has only a hash of the user key, or the holder
-- has a label.
if string.byte(state, 51) >= 128 or string.sub(state, 51) == '\0\0' then
  state = state .. (redis.call('HGET', lock_key, 'u') or '')
end
