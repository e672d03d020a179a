-- register: write the registration of a client, for operators.
--
-- KEYS   1 registration of the client, or of its stem
-- ARGV   1 description in JSON, or the UUID for a stem, 2 ttl in ms
-- Reply  1

redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
