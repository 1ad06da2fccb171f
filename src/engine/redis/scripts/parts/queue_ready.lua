-- Puts the task among the ready ones, or parks it if as many tasks of its limit key are leased as may be. It has no lease
-- any more. The caller takes it out of the set where it was.
-- include queue_leased
if group and group_leased >= group_limit then
  -- include queue_park
else
  place = 1
  redis.call('ZADD', ready, string.format('%d', sequence - priority * 4398046511104), task)
end
