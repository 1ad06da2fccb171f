-- now: the server's clock in milliseconds, with its fraction: an expiry is a whole number, so `now < expires` is the
-- same with the fraction as without.
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
