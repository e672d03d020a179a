-- renew: extend a lock that its owner still holds, and record its hold count.
--
-- KEYS   1 lock
-- ARGV   1 owner, 2 ttl in ms, 3 holds
-- Reply  1   extended
--        0   the owner holds nothing

local lock, owner, holds = KEYS[1], ARGV[1], ARGV[3]

local recorded = redis.call('HGET', lock, owner)
if not recorded then
  return 0
end

-- PEXPIRE first: a full server does not refuse it, nor what follows it.
local longest = math.max(redis.call('PTTL', lock), tonumber(ARGV[2]))
redis.call('PEXPIRE', lock, string.format('%.0f', longest))
if recorded ~= holds then
  redis.call('HSET', lock, owner, holds)
end
return 1
