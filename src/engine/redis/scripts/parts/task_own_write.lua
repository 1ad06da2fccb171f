-- written: the version that this very request made of the record, if an earlier copy of it did; `write` is the
-- last writer's id and that version, which other software's writes leave as it is.
local written = fields[9] and string.sub(fields[9], 1, 23) == id .. ':' and tonumber(string.sub(fields[9], 24))
