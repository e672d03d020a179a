-- client: read registrations: of clients, or of the stems with which permit ids begin.
-- It writes nothing.
--
-- KEYS   1... registrations of clients, or of stems
-- Reply  {description in JSON, or the UUID for a stem, ..., server time in ms}; '' for a
--        registration that does not exist
-- Uses   millis

local found = {}
for i, key in ipairs(KEYS) do
  local text = redis.pcall('GET', key) -- a key of another type is no registration
  found[i] = type(text) == 'string' and text or ''
end
found[#found + 1] = millis()
return found
