-- live: whether a record that is present counts as held; tested against test/support/liveness.hpp. Redis drops a
-- record at its time, so the answer is no only for one that lost its expiry (PERSISTed by hand, restored).
local live = expires > now - 1000
