-- Releases the lock that find_held found; ends the script with 1.
-- ARGV[2] the part of a channel's name before the lock key
-- include find_held
local news = '1'
-- include free_held
