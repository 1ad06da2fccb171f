-- incarnation: of the live record in `fields`. One of another writer has none of its own: a digest of its data
-- tells it from its successors well enough, until our first write gives it one.
local incarnation = fields[4] or '~' .. redis.sha1hex(fields[2])
