-- list_clients: who some clients say they are. It writes nothing.
--
-- KEYS   1... registrations
-- Reply  {description in JSON, ...}, '' for one that there is not

local found = {}
for i, key in ipairs(KEYS) do
  local text = redis.pcall('GET', key) -- a key of another type is nobody's
  found[i] = type(text) == 'string' and text or ''
end
return found
