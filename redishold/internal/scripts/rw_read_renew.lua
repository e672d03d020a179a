-- rw_read_renew: extend a read hold that its owner still has, and record its
-- hold count.
--
-- A timeout key that ended is made again: while the field stayed, no writer can
-- have come in.
--
-- KEYS   1 lock, 2 timeout key of the owner
-- ARGV   1 owner, 2 ttl in ms, 3 holds
-- Reply  1   extended
--        0   the owner holds nothing
-- Uses   longest

local lock, timeout, owner, ttl, holds = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]

local recorded = redis.call('HGET', lock, owner)
if not recorded then
  return 0
end

-- PEXPIRE first: a full server does not refuse it, nor what follows it.
redis.call('PEXPIRE', lock, longest(lock, ttl))
redis.call('SET', timeout, '1', 'PX', longest(timeout, ttl))
if recorded ~= holds then
  redis.call('HSET', lock, owner, holds)
end
return 1
