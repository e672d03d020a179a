-- list_leases: read the leases of some read holds. It writes nothing.
--
-- KEYS   1... timeout keys
-- Reply  {pttl, ...}; -2 for a timeout key that does not exist, -1 for one that never expires

local leases = {}
for i, key in ipairs(KEYS) do
  leases[i] = redis.call('PTTL', key)
end
return leases
