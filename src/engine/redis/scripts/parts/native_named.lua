-- Adds the user key to the state at lock_key, if that name has only its hash.
if string.sub(state, 51) == '\0\0' then state = state .. (redis.call('HGET', lock_key, 'u') or '') end
