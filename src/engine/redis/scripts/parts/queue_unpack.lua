-- The state in `queue`, the field of that name: see engine/redis/queue_state.hpp. The rest of it, the terms and the
-- worker, is carried along.
local place, attempts, deaths, due, fails, sequence, claimed, lease_end, counter, priority, max_attempts, attempt_limit =
  struct.unpack('>BI4I4I7I7I7I7I7I7i2I4i8', queue)
-- include queue_group
