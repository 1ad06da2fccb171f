-- Remembers the end of a task that is not kept: it expires at ends_at (ms, '' for never), perhaps before a late copy of
-- this request, or of its create, whose id is fields[4], comes. That of the create would add the task again. Ten seconds
-- are twice the usual command timeout.
if fields[4] and ends_at ~= '' and ends_at - now < 10000 then
  redis.call('SET', settings .. ':made:' .. fields[4], id .. ':' .. version_text, 'PX', '10000')
end
