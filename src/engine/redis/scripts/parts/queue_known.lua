-- queue: the field of that name as text, see engine/redis/queue_state.hpp; nil if it is missing or not a state.
if queue and (#queue < 158 or string.byte(queue) < 48) then
  if #queue >= 98 and string.byte(queue) < 48 then
    -- include queue_binary
  else
    queue = nil
  end
end
