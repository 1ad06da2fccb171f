-- The rest of the state in `queue`, as queue_terms.
local deaths, due, sequence, claimed, lease_end = struct.unpack('c10c16c16c16c16', queue, 2)
lease_end = lease_end + 0
