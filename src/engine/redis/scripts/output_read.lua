-- Reads the output of a run of a command. Changes nothing.
-- Without it, tasks cannot be read.
--
-- KEYS[1] the record's hash
-- ARGV[1] incarnation, '' for any    ARGV[2] number of the run, 0 for the newest
-- ARGV[3], ARGV[4] position in stdout and stderr    ARGV[5] how many bytes of each at most    ARGV[6] size of a chunk
--
-- returns {run, position, chunks, position, chunks, runs...}   run: 0 if there is no such run; runs: as in parts/output_runs;
--             chunks: those from the one with that position on, as they are stored
--         nil if there is none, or another incarnation; -3 if the value is not a record
local key, size, limit = KEYS[1], tonumber(ARGV[6]), tonumber(ARGV[5])
-- include task_read
if state == 'bad' then return -3 end
if state ~= 'live' then return nil end
if ARGV[1] ~= '' then
  -- include task_incarnation
  if incarnation ~= ARGV[1] then return nil end
end
-- include output_runs
local wanted, run = tonumber(ARGV[2]), nil
for i = 1, #runs do
  if runs[i][1] == wanted or wanted == 0 then run = runs[i] end
end
local answer = {run and run[1] or 0, '0', '', '0', ''}
if run then
  for stream = 0, 1 do
    local first, last = run[5 + 2 * stream], run[6 + 2 * stream]
    local begin = math.min(math.max(tonumber(ARGV[3 + stream]), first), last)
    local stop = math.min(last, begin + limit)
    local names, at = {}, begin
    while at < stop do
      local chunk = math.floor(at / size)
      names[#names + 1] = string.format('output:%d:%d:%d', run[1], stream, chunk)
      at = (chunk + 1) * size
    end
    local text = ''
    if #names > 0 then
      local found = redis.call('HMGET', key, unpack(names))
      for i = 1, #names do
        if not found[i] then return -3 end
      end
      text = table.concat(found)
    end
    answer[2 + 2 * stream], answer[3 + 2 * stream] = string.format('%d', begin), text
  end
end
for word in string.gmatch(kept or '', '%S+') do answer[#answer + 1] = word end
return answer
