-- Ends the script before it destroys what only begins like a record. Rarely reached, so it may cost.
if own_form and not pcall(cjson.decode, record) then return -3 end
