-- Notifies the watchers.
local news = '1'
-- include task_publish
