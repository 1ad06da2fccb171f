-- Appends to the output of a command, which is kept in fields of the record: `output` has what there is (see
-- parts/output_runs.lua), `output:RUN:STREAM:CHUNK` the bytes as text.
-- Without it, tasks cannot be logged.
--
-- KEYS[1] the record's hash
-- ARGV[1] channel    ARGV[2..4] authority, lock key and fence of the token    ARGV[5] incarnation, '' for any
-- ARGV[6] attempt    ARGV[7] how many bytes of each stream are kept    ARGV[8] '1': complete
-- ARGV[9], ARGV[10] position of stdout, and how many chunks of it follow    ARGV[11], ARGV[12] the same of stderr
-- ARGV[13] size of a chunk    ARGV[14] how many runs are kept
-- ARGV[15...] for each chunk how many bytes, and these as text (core/escaped_bytes.hpp): pmcp-tasks reads every field of the
--     hash as UTF-8
--
-- returns {1, run}   appended, by this copy of the request or an earlier one; the run as in the field `output`
--         {-1, 0}    there is none, or another incarnation
--         {-2, highest}, {-4, authority, lock key, fence}   refused by the record's guard
--         {-3, 0}    the value is not a record
local key, channel, authority, fence_key, fence = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local size = tonumber(ARGV[13])
-- include task_read
if state == 'bad' then return {-3, 0} end
if state ~= 'live' then return {-1, 0} end
if ARGV[5] ~= '' then
  -- include task_incarnation
  if incarnation ~= ARGV[5] then return {-1, 0} end
end
-- include task_fence
-- include output_runs
local writer = 'u' .. redis.sha1hex(authority .. '\n' .. fence_key .. '\n' .. fence)
local run = runs[#runs]
local sets, dels = {}, {}
local function field(of, stream, chunk) return string.format('output:%d:%d:%d', of, stream, chunk) end
local function drop(of, stream, from, to)
  for chunk = from, to - 1 do dels[#dels + 1] = field(of, stream, chunk) end
end
local function chunks_end(range_begin, range_end)
  if range_end == range_begin then return 0 end
  return math.floor((range_end - 1) / size) + 1
end
if not run or run[9] ~= writer then
  run = {run and run[1] + 1 or 1, fence, tonumber(ARGV[6]), 0, 0, 0, 0, 0, writer}
  runs[#runs + 1] = run
  while #runs > tonumber(ARGV[14]) do
    local old = table.remove(runs, 1)
    for stream = 0, 1 do
      local first, last = old[5 + 2 * stream], old[6 + 2 * stream]
      drop(old[1], stream, math.floor(first / size), chunks_end(first, last))
    end
  end
end
local argument = 15
for stream = 0, 1 do
  local part_at, parts = tonumber(ARGV[9 + 2 * stream]), tonumber(ARGV[10 + 2 * stream])
  local first, last = run[5 + 2 * stream], run[6 + 2 * stream]
  local at, new_last = math.max(part_at, last), part_at
  for part = 0, parts - 1 do new_last = new_last + ARGV[argument + 2 * part] end
  if new_last > at then
    local is_gap = at > last
    local new_first = is_gap and at or first
    local keep = tonumber(ARGV[7])
    if new_last > keep then new_first = math.max(new_first, math.floor((new_last - keep) / size) * size) end
    drop(run[1], stream, math.floor(first / size), math.min(math.floor(new_first / size), chunks_end(first, last)))
    local from = math.max(at, new_first)
    for part = 0, parts - 1 do
      local part_end = part_at + ARGV[argument + 2 * part]
      if part_end > from then
        local name, text = field(run[1], stream, math.floor(part_at / size)), ARGV[argument + 2 * part + 1]
        local cut = from - part_at
        if cut > 0 then
          -- The first bytes are there already. The rest of a character that this cuts in two is escaped.
          local i, rest = 1, ''
          while cut > 0 do
            local char = string.match(text, '^[%z\1-\127\194-\244][\128-\191]*', i)
            local length = string.find(char, '^\239[\158\159]') and 1 or #char
            if length > cut then
              rest = string.gsub(string.sub(char, cut + 1), '.', function(c)
                local byte = string.byte(c)
                return '\239' .. string.char(byte < 192 and 158 or 159, 128 + byte % 64)
              end)
            end
            i, cut = i + #char, cut - length
          end
          text, part_at = rest .. string.sub(text, i), from
        end
        if not is_gap and part_at == at and at > first and at % size ~= 0 then
          text = (redis.call('HMGET', key, name)[1] or '') .. text
        end
        sets[#sets + 1], sets[#sets + 2] = name, text
        from = part_end
      end
      part_at = part_end
    end
    run[5 + 2 * stream], run[6 + 2 * stream] = new_first, new_last
  end
  argument = argument + 2 * parts
end
if ARGV[8] == '1' then run[4] = 1 end
local words, answer = {}, nil
for i = 1, #runs do
  local r = runs[i]
  answer = string.format('%d,%s,%d,%d,%d,%d,%d,%d,%s', r[1], r[2], r[3], r[4], r[5], r[6], r[7], r[8], r[9])
  words[i] = answer
end
if fields[6] ~= fence then
  local n = #sets
  sets[n + 1], sets[n + 2], sets[n + 3], sets[n + 4], sets[n + 5], sets[n + 6] =
    'fence', fence, 'fence_authority', authority, 'fence_key', fence_key
end
if #dels > 0 then redis.call('HDEL', key, unpack(dels)) end
redis.call('HSET', key, 'output', table.concat(words, ' '), unpack(sets))
return {1, answer}
