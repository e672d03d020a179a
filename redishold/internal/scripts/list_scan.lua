-- list_scan: read one page of the keys of a server. It writes nothing.
--
-- KEYS   1 any key of that server; in a cluster it selects the server
-- ARGV   1 cursor, '0' to begin, 2 pattern, 3 type, 4 approximate number of keys to scan
-- Reply  {next cursor, {key, ...}}   the cursor is '0' at the end

return redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[4], 'TYPE', ARGV[3])
