-- Adds the record to the answer, which has n parts.
answer[n + 1], answer[n + 2], answer[n + 3], answer[n + 4], answer[n + 5], answer[n + 6], answer[n + 7], answer[n + 8],
  answer[n + 9] = task, version, fields[2], fields[4], fields[5], fields[6], fields[7], fields[8], fields[9]
n = n + 9
