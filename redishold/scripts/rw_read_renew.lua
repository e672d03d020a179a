-- rw_read_renew: extend a read hold that its owner still has, and record its
-- hold count.
--
-- A timeout key that ended is made again: while the field stayed, no writer can
-- have come in.
--
-- KEYS   1 lock
-- ARGV   1 owner, 2 ttl in ms, 3 holds, 4 timeout key of the owner
-- Reply  1   extended
--        0   the owner holds nothing

local lock, owner, ttl, holds, timeout = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]

local recorded = redis.call('HGET', lock, owner)
if not recorded then
  return 0
end

-- longest is the ttl, or what key has left if that is more: nobody is cut short.
local function longest(key)
  return string.format('%.0f', math.max(redis.call('PTTL', key), ttl))
end

-- PEXPIRE first: a full server does not refuse it, nor what follows it.
redis.call('PEXPIRE', lock, longest(lock))
redis.call('SET', timeout, '1', 'PX', longest(timeout))
if recorded ~= holds then
  redis.call('HSET', lock, owner, holds)
end
return 1
