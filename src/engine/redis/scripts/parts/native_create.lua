-- authority: eight bytes for a counter that begins here. Made from the lock id, which is never used again, and the
-- time: a counter that was lost and begins anew has another.
local hash = redis.sha1hex(ARGV[1] .. ' ' .. time[1] .. ' ' .. time[2])
authority = struct.pack('>I4I4', tonumber(string.sub(hash, 1, 8), 16), tonumber(string.sub(hash, 9, 16), 16))
