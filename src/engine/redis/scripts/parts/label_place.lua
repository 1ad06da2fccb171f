-- label: where ,"holder": begins in a `record` in own form; it ends the record. nil: it has no label. A key cannot
-- contain this text: quotes in it are escaped.
local label = string.find(record, ',"holder":', 88, true)
