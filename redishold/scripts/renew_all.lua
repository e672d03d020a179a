-- renew_all: renew for several locks, each as if it were alone.
--
-- KEYS   for each: lock
-- ARGV   1 ttl in ms, 2 holds; then for each: owner
-- Reply  for each what renew.lua answers; {-3, words} where the server refused it
-- Uses   renew, each

local ttl, holds = ARGV[1], ARGV[2]

return each(#KEYS, function(i)
  return renew(KEYS[i], ARGV[2 + i], ttl, holds)
end)
