-- semaphore_whose: which clients the ids of some permits begin with. It writes
-- nothing.
--
-- KEYS   1... registrations of stems
-- Reply  {the client's UUID, ...}, '' for one that there is not

local found = {}
for i, key in ipairs(KEYS) do
  local text = redis.pcall('GET', key) -- a key of another type is nobody's
  found[i] = type(text) == 'string' and text or ''
end
return found
