-- client: who a client says it is.
--
-- KEYS   1 registration of the client
-- Reply  its description in JSON, '' if there is none

return redis.call('GET', KEYS[1]) or ''
