-- report: write the registration of a client with its holds, for operators.
--
-- KEYS   1 registration of the client
-- ARGV   1 description in JSON, an object that is not empty, 2 ttl in ms
-- Reply  1
-- Uses   stamped

redis.call('SET', KEYS[1], stamped(ARGV[1]), 'PX', ARGV[2])
return 1
