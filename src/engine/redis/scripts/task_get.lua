-- A record. Changes nothing.
--
-- KEYS[1] the record's hash
--
-- returns {version, data, incarnation, origin, fence, authority, lock key}, nil for what it does not have;
--         nil if there is none; -3 if what is there is no record
local key = KEYS[1]
-- include task_read
if state == 'bad' then return -3 end
if state ~= 'live' then return nil end
-- include task_answer
return answer
