-- What a claim needs of the state in `queue`: see engine/redis/queue_state.hpp. Texts, which count as numbers in
-- arithmetic; those that are compared are numbers. Each new text costs time, so the others are read where they are needed.
local attempts, fails, counter, priority, max_attempts, attempt_limit, flags, worker_at =
  struct.unpack('c10c16c16c6c10c20c1c4', queue, 76)
attempts, fails, max_attempts, attempt_limit = attempts + 0, fails + 0, max_attempts + 0, attempt_limit + 0
