-- Does what the time has come for, a bounded number of each: as queue_due, and removes finished tasks that have expired.
local passes = 2
-- include queue_due
local most = 100
-- include queue_trim
