-- Ends the script with {-9, needed} unless that key is declared: the call is sent again with it. On a cluster a node
-- serves the keys that it was asked for. A call with a single key is for a server without cluster, which serves every
-- key. Nothing was written yet that a second call must not find.
local declared = not KEYS[2]
for i = 1, #KEYS do declared = declared or KEYS[i] == needed end
if not declared then return {-9, needed} end
