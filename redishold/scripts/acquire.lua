-- acquire: give the lock to an owner, unless somebody else holds it.
--
-- KEYS   1 lock, 2 mark of the owner, 3 token counter
-- ARGV   1 owner, 2 ttl in ms, 3 holds, 4 how many tokens to reserve, 5 channel,
--        if others may wait for the lock and shall hear that it is taken, 6... the
--        commands to publish with
-- Reply  first token                granted, now or by an earlier call
--        {0, pttl, holder, holds}   busy; holder '' where the hash is too large for a lock
--        {-1}                       the key is another kind of lock
--        {-2, mark}                 the owner was given up or broken
-- Uses   draw, limit, publish
--
-- Nothing it writes can stay without a TTL, whatever memory or rights forbid.

local lock, mark, counter = KEYS[1], KEYS[2], KEYS[3]
local owner, holds, tokens = ARGV[1], ARGV[3], tonumber(ARGV[4])

if redis.call('EXISTS', lock, mark) == 0 then
  local first = draw(counter, tokens) -- a full server refuses here, before there is a lock
  redis.call('HSET', lock, owner, holds)
  limit(lock, ARGV[2])
  if ARGV[5] then
    publish(6, ARGV[5], '2')
  end
  return first
end

local gone = redis.call('GET', mark)
if gone then
  return {-2, gone}
end

if redis.call('HGET', lock, owner) then
  -- PEXPIRE first: a full server does not refuse it, nor what follows it.
  local longest = math.max(redis.call('PTTL', lock), tonumber(ARGV[2]))
  redis.call('PEXPIRE', lock, string.format('%.0f', longest))
  redis.call('HSET', lock, owner, holds)
  return draw(counter, tokens)
end

if redis.call('HEXISTS', lock, 'mode') == 1 then
  return {-1}
end
local pttl = redis.call('PTTL', lock)
if redis.call('HLEN', lock) > 4 then
  return {0, pttl, '', '0'}
end
local holder = redis.call('HGETALL', lock)
return {0, pttl, holder[1], holder[2]}
