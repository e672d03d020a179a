-- list_tombstones: read the tombstones of some owners. It writes nothing.
--
-- KEYS   1... tombstones
-- Reply  {text, ...}; '' for a tombstone that does not exist

local found = {}
for i, key in ipairs(KEYS) do
  found[i] = redis.call('GET', key) or ''
end
return found
