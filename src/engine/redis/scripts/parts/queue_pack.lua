-- queue: its state replaced by the one that queue_unpack made local.
queue = struct.pack('>BI4I4I7I7I7I7I7I7', place, attempts, deaths, due, fails, sequence, claimed, lease_end, counter)
  .. string.sub(queue, 52)
