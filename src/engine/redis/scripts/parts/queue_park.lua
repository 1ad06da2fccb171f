-- Parks the task under its limit key, at its place by priority and sequence. The caller takes it out of the set where it
-- was.
place = 5
redis.call('ZADD', settings .. ':parked', '0',
  group .. struct.pack('>I7', sequence - priority * 4398046511104 + 4503599627370496) .. task)
