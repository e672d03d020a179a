-- list_masters: list the masters of a cluster. It writes nothing.
--
-- KEYS   none, because any node knows the masters
-- Reply  {id, one of its slots, ...}

local masters, known = {}, {}
for _, range in ipairs(redis.call('CLUSTER', 'SLOTS')) do
  local id = range[3][3]
  if not known[id] then
    known[id] = true
    masters[#masters + 1] = id
    masters[#masters + 1] = range[1]
  end
end
return masters
