-- place: the number of the task's QueuePlace, by its state in `queue`; and its group.
local place = string.byte(queue) - 48
-- include queue_group
