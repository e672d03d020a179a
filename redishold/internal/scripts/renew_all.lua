-- renew_all: renew several locks, each independently of the others.
--
-- KEYS   for each: lock
-- ARGV   for each: owner; then ttl in ms, hold count
-- Reply  for each the reply of renew.lua; {-3, error} if the server refused it. If all of them are
--        the same number, only that number
-- Uses   renew, each

local ttl, holds = unpack(ARGV, #KEYS + 1)

return each(#KEYS, function(i)
  return renew(KEYS[i], ARGV[i], ttl, holds)
end)
