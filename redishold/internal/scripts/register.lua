-- register: note for people who a client is.
--
-- KEYS   1 registration of the client, or of its stem
-- ARGV   1 description in JSON, or of a stem the UUID, 2 ttl in ms
-- Reply  1

redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
