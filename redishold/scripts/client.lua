-- client: who a client says it is, and what it holds.
--
-- KEYS   1 registration of the client
-- Reply  {its description in JSON, '' if there is none, the server's time in ms}
-- Uses   millis

return {redis.call('GET', KEYS[1]) or '', millis()}
