-- client: who some clients say they are, and what they hold; or which clients the ids
-- of some permits begin with. It writes nothing.
--
-- KEYS   1... registrations of clients, or of stems
-- Reply  {description in JSON or UUID, ..., the server's time in ms}, '' for one that
--        there is not
-- Uses   millis

local found = {}
for i, key in ipairs(KEYS) do
  local text = redis.pcall('GET', key) -- a key of another type is nobody's
  found[i] = type(text) == 'string' and text or ''
end
found[#found + 1] = millis()
return found
