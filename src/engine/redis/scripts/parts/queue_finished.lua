-- queue: its state with another `place`, and without a lease.
queue = place .. string.sub(queue, 2, 59) .. '0000000000000000' .. string.sub(queue, 76)
