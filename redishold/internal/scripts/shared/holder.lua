-- holder: the holder of a lock that is not free.
--
-- A hash without a TTL whose field is not an owner is other data, and no client should wait for
-- it. Every owner has a colon. The fields of Redisson's lock on several values may have no
-- colon, but that lock always has a TTL.
--
-- Takes  the lock, which is a hash without a mode, and the PTTL of the lock
-- Reply  {0, pttl, holder, holds}   holder '' if the hash is too large for a lock
--        {-1}                       the hash is no lock

local function holder(lock, pttl)
  if redis.call('HLEN', lock) > 4 then
    return pttl == -1 and {-1} or {0, pttl, '', '0'}
  end
  local found = redis.call('HGETALL', lock)
  if pttl == -1 and not string.find(found[1], ':', 1, true) then
    return {-1}
  end
  return {0, pttl, found[1], found[2]}
end
