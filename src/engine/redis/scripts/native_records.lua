-- The states at several lock keys. Changes nothing.
-- Without it, locks cannot be listed.
--
-- KEYS lock keys
--
-- returns, for each key in turn, as native_lookup; nil if there is no live lock
-- include native_time
local states = {}
for i, lock_key in ipairs(KEYS) do
  local state = redis.pcall('HGET', lock_key, 's') -- pcall: another type's value is no lock
  states[i] = false
  if type(state) == 'string' and #state == 52 and now < struct.unpack('>I6', state, 17) then
    -- include native_named
    states[i] = state
  end
end
return states
