-- rw_read_acquire: give the read side of a read-write lock to an owner, unless
-- somebody else holds the write side.
--
-- A reader is never refused while the lock is in read mode, even if writers
-- wait: Redisson's readers are not either.
--
-- KEYS   1 lock, 2 mark of the owner, 3 token counter, 4 timeout key of the owner
-- ARGV   1 owner, 2 ttl in ms, 3 holds, 4 how many tokens to reserve,
--        5 field of the write hold beside which it is granted, '' if there is none
--        6 what registrations begin with, '' if nobody asks for the holder's
-- Reply  first token                granted, now or by an earlier call
--        {0, pttl, holder, holds}   busy; holder is the field of the writer, '' if unknown.
--                                   One element more where introduce has something to say
--        {-1}                       the key is another kind of lock
--        {-2, mark}                 the owner was given up or broken
-- Uses   draw, limit, longest, opened, writer, introduce
--
-- Nothing it writes can stay without a TTL, whatever memory or rights forbid.

local lock, mark, counter, timeout = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local owner, ttl, holds, tokens = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])

local mode, no = opened(lock, mark)
if no then
  return no
end

if mode and redis.call('HGET', lock, owner) then
  -- PEXPIRE first: a full server does not refuse it, nor what follows it.
  redis.call('PEXPIRE', lock, longest(lock, ttl))
  redis.call('SET', timeout, '1', 'PX', longest(timeout, ttl))
  redis.call('HSET', lock, owner, holds)
  return draw(counter, tokens)
end

if mode == 'write' and (ARGV[5] == '' or redis.call('HEXISTS', lock, ARGV[5]) == 0) then
  return introduce(writer(lock), ARGV[6])
end

local first = draw(counter, tokens) -- a full server refuses here, before there is a hold
redis.call('SET', timeout, '1', 'PX', ttl) -- a field must not be seen without it
if mode then
  redis.call('PEXPIRE', lock, longest(lock, ttl))
  redis.call('HSET', lock, owner, holds)
else
  redis.call('HSET', lock, 'mode', 'read', owner, holds)
  limit(lock, ttl)
end
return first
