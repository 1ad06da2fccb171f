-- queue: the field of that name as text, see engine/redis/queue_state.hpp; nil if it is missing or damaged. What follows
-- calculates with its parts, and a script that fails in the middle would lose the tasks that it has taken out of a set.
if queue then
  local first = string.byte(queue) or 48
  if first >= 48 then
    -- Numbers, and among them the sign of the priority.
    local _, last = string.find(queue, '^%d+[+-]%d+')
    local sign = string.byte(queue, 118)
    if not last or last < 158 or (sign ~= 43 and sign ~= 45) or (string.byte(queue, 154) > 49 and last < 173) then
      queue = nil
    end
  elseif #queue >= 98 and (string.byte(queue, 90) < 2 or #queue >= 104) then
    -- include queue_binary
  else
    queue = nil
  end
end
