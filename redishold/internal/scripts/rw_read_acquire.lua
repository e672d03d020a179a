-- rw_read_acquire: give the read side of a read-write lock to an owner, unless another
-- owner holds the write side.
--
-- In read mode no reader is refused, even if writers wait. Redisson's scripts do the same.
--
-- KEYS   1 lock, 2 tombstone of the owner, 3 token counter, 4 timeout key of the owner
-- ARGV   1 owner, 2 ttl in ms, 3 hold count, 4 number of tokens to reserve,
--        5 field of the write hold of the same caller, '' if there is none
-- Reply  first token                granted, now or by an earlier call
--        {0, pttl, holder, holds}   busy; holder is the field of the writer, '' if unknown
--        {-1}                       the key is another kind of lock
--        {-2, tombstone}            the claim was abandoned or forced
-- Uses   draw, limit, longest, rw_mode, writer
--
-- It leaves no key without a TTL, even if the server refuses a command.

local lock, tombstone, counter, timeout = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local owner, ttl, holds, tokens = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])

local mode, refusal = rw_mode(lock, tombstone)
if refusal then
  return refusal
end

if not mode then
  local first = draw(counter, tokens) -- a full server refuses here, before there is a lock
  redis.call('SET', timeout, '1', 'PX', ttl) -- before HSET, because a reader without a timeout key counts as dead
  redis.call('HSET', lock, 'mode', 'read', owner, holds)
  limit(lock, ttl)
  return first
end

if redis.call('HGET', lock, owner) then
  -- PEXPIRE first: a full server refuses neither PEXPIRE nor the writes after it.
  redis.call('PEXPIRE', lock, longest(lock, ttl))
  redis.call('SET', timeout, '1', 'PX', longest(timeout, ttl))
  redis.call('HSET', lock, owner, holds)
  return draw(counter, tokens)
end

if mode == 'read' or ARGV[5] ~= '' and redis.call('HEXISTS', lock, ARGV[5]) == 1 then
  local first = draw(counter, tokens) -- a full server refuses here, before there is a hold
  redis.call('SET', timeout, '1', 'PX', ttl)
  redis.call('PEXPIRE', lock, longest(lock, ttl))
  redis.call('HSET', lock, owner, holds)
  return first
end

return writer(lock)
