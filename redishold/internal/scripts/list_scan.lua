-- list_scan: read one page of the keys of a server. It writes nothing.
--
-- KEYS   1 any key of that server; in a cluster it selects the server
-- ARGV   1 cursor, '0' to begin, 2 pattern, 3 type, 4 approximate number of keys to scan,
--        5 '1' to count all keys of the server
-- Reply  {next cursor, {key, ...}, all keys}   the cursor is '0' at the end; the number of all
--        keys is -1 if it is unknown

local all = ARGV[5] == '1' and redis.pcall('DBSIZE')
local page = redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[4], 'TYPE', ARGV[3])
return {page[1], page[2], type(all) == 'number' and all or -1} -- without the right to count, DBSIZE is an error
