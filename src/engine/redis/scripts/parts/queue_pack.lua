-- queue: its state replaced by the one that queue_place, queue_terms and queue_times made local. Where little of it changes,
-- pieces of the text are cheaper (queue_grant, queue_finished).
queue = string.format('%d%010d%016d%016d%016d%016d%010d%016d%016d', place, deaths, due, sequence, claimed, lease_end,
  attempts, fails, counter) .. string.sub(queue, 118)
