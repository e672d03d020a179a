-- inspect: who holds the lock.
--
-- KEYS   1 lock
-- Reply  {1, pttl, {owner, holds, ...}}   held; pttl -1: it never expires
--        {0}                              free
--        {-1}                             another kind of lock, or no lock

local lock = KEYS[1]

local fields = redis.call('HLEN', lock)
if fields == 0 then
  return {0}
end
if fields > 4 or redis.call('HEXISTS', lock, 'mode') == 1 then
  return {-1}
end
return {1, redis.call('PTTL', lock), redis.call('HGETALL', lock)}
