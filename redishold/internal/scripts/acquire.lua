-- acquire: give the lock to an owner, unless another one holds it.
--
-- KEYS   1 lock, 2 tombstone of the owner, 3 token counter
-- ARGV   1 owner, 2 ttl in ms, 3 hold count, 4 number of tokens to reserve,
--        5 channel, if waiters must be notified that the lock is taken, 6... publish
--        commands
-- Reply  first token                granted, now or by an earlier call
--        {0, pttl, holder, holds}   busy; holder '' if the hash is too large for a lock
--        {-1}                       the key is another kind of lock, or no lock
--        {-2, tombstone}            the claim was abandoned or forced
-- Uses   draw, limit, publish, taken
--
-- It leaves no key without a TTL, even if the server refuses a command.

local lock, tombstone, counter = KEYS[1], KEYS[2], KEYS[3]
local owner, ttl, holds, tokens = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])

if redis.call('EXISTS', lock, tombstone) == 0 then
  local first = draw(counter, tokens) -- a full server refuses here, before there is a lock
  redis.call('HSET', lock, owner, holds)
  limit(lock, ttl)
  if ARGV[5] then
    publish(6, ARGV[5], '2')
  end
  return first
end

return taken(lock, tombstone, counter, owner, ttl, holds, tokens)
