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
-- Uses   draw, limit, introduce
--
-- Nothing it writes can stay without a TTL, whatever memory or rights forbid.

local lock, mark, counter, timeout = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local owner, ttl, holds, tokens = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])

-- longest is the ttl, or what key has left if that is more: nobody is cut short.
local function longest(key)
  return string.format('%.0f', math.max(redis.call('PTTL', key), ttl))
end

local found = redis.call('EXISTS', lock, mark) > 0 -- else there is nothing to look at
local gone = found and redis.call('GET', mark)
if gone then
  return {-2, gone}
end

local mode = found and redis.call('HGET', lock, 'mode')
if found and mode ~= 'read' and mode ~= 'write' then
  return {-1}
end

if mode and redis.call('HGET', lock, owner) then
  -- PEXPIRE first: a full server does not refuse it, nor what follows it.
  redis.call('PEXPIRE', lock, longest(lock))
  redis.call('SET', timeout, '1', 'PX', longest(timeout))
  redis.call('HSET', lock, owner, holds)
  return draw(counter, tokens)
end

if mode == 'write' and (ARGV[5] == '' or redis.call('HEXISTS', lock, ARGV[5]) == 0) then
  local pttl = redis.call('PTTL', lock)
  if redis.call('HLEN', lock) <= 64 then
    local fields = redis.call('HGETALL', lock)
    for i = 1, #fields, 2 do
      if string.find(fields[i] .. ':', ':write:', 1, true) then
        return introduce({0, pttl, fields[i], fields[i + 1]}, ARGV[6])
      end
    end
  end
  return {0, pttl, '', '0'}
end

local first = draw(counter, tokens) -- a full server refuses here, before there is a hold
redis.call('SET', timeout, '1', 'PX', ARGV[2]) -- a field must not be seen without it
if mode then
  redis.call('PEXPIRE', lock, longest(lock))
  redis.call('HSET', lock, owner, holds)
else
  redis.call('HSET', lock, 'mode', 'read', owner, holds)
  limit(lock, ARGV[2])
end
return first
