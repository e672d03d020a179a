-- renew_all: renew for several locks, each as if it were alone.
--
-- KEYS   for each: lock
-- ARGV   for each: owner; then ttl in ms, holds
-- Reply  for each what renew.lua answers; {-3, words} where the server refused it
-- Uses   renew, each

local ttl, holds = unpack(ARGV, #KEYS + 1)

return each(#KEYS, function(i)
  return renew(KEYS[i], ARGV[i], ttl, holds)
end)
