-- list_clients: who some clients say they are. It writes nothing.
--
-- KEYS   1... registrations
-- Reply  {the server's time in ms, description in JSON, ...}, '' for one that there
--        is not
-- Uses   millis

local found = {millis()}
for i, key in ipairs(KEYS) do
  local text = redis.pcall('GET', key) -- a key of another type is nobody's
  found[i + 1] = type(text) == 'string' and text or ''
end
return found
