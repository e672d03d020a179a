-- plain_renew: extend a plain lock if it still has the value of its owner.
--
-- KEYS   1 lock
-- ARGV   1 owner, 2 ttl in ms
-- Reply  1   extended
--        0   the lock has another value or none

local lock, owner = KEYS[1], ARGV[1]

if redis.call('GET', lock) ~= owner then
  return 0
end
local longest = math.max(redis.call('PTTL', lock), tonumber(ARGV[2]))
redis.call('PEXPIRE', lock, string.format('%.0f', longest))
return 1
