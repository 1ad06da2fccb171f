-- runs: those whose output is kept, oldest first: {number, fence, attempt, complete, begin and end of stdout, begin and
-- end of stderr, writer}. The chunks of a writer that begins with `u` are text; those that earlier builds stored are
-- bytes. The field `output` has them as words of nine values.
local runs = {}
local kept = redis.call('HMGET', key, 'output')[1]
for word in string.gmatch(kept or '', '%S+') do
  local run = {}
  for value in string.gmatch(word, '[^,]+') do run[#run + 1] = value end
  for i = 1, 8 do if i ~= 2 then run[i] = tonumber(run[i]) end end
  runs[#runs + 1] = run
end
