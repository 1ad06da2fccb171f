-- A live record with an incomplete guard is bad: it is unknown which writes it refuses.
if state == 'live' and (fields[6] or fields[7] or fields[8])
  and not (fields[6] and fields[7] and fields[8] and #fields[6] == 15 and not string.find(fields[6], '%D')) then
  state = 'bad'
end
