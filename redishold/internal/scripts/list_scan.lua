-- list_scan: a page of the keys of one server. It writes nothing.
--
-- KEYS   1 any key of that server: in a cluster it says which one is meant
-- ARGV   1 cursor, '0' to begin, 2 pattern, 3 type, 4 about how many keys to look at
-- Reply  {next cursor, {key, ...}}   the cursor is '0' at the end

return redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[4], 'TYPE', ARGV[3])
