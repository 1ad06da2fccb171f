-- A record. Changes nothing.
-- Without it, tasks cannot be read.
--
-- KEYS[1] the record's hash
--
-- returns {version, data, incarnation, origin, fence, authority, lock key, queue}, nil for absent fields;
--         nil if there is none; -3 if the value is not a record
local key = KEYS[1]
-- include task_read
if state == 'bad' then return -3 end
if state ~= 'live' then return nil end
-- include task_answer
return answer
