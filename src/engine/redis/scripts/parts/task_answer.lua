-- answer: the live record in `fields`.
-- include task_incarnation
local answer = {version, fields[2], incarnation, fields[5], fields[6], fields[7], fields[8], fields[10]}
