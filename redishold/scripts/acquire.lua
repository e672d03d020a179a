-- acquire: give the lock to an owner, unless somebody else holds it.
--
-- KEYS   1 lock, 2 mark of the owner, 3 token counter
-- ARGV   1 owner, 2 ttl in ms, 3 holds, 4 how many tokens to reserve
-- Reply  {1, first token}           granted, now or by an earlier call
--        {0, pttl, holder, holds}   busy; holder '' where the hash is too large for a lock
--        {-1}                       the key is another kind of lock
--        {-2, mark}                 the owner was given up or broken
--
-- Nothing it writes can stay without a TTL, whatever memory or rights forbid.

local lock, mark, counter = KEYS[1], KEYS[2], KEYS[3]
local owner, ttl, holds, tokens = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])

-- draw reserves a block of tokens: larger than all before it, and larger than
-- those that a lost counter gave out.
local function draw()
  local now = redis.call('TIME')
  local drawn = tonumber(redis.call('GET', counter) or 0) or 0
  local first = math.max(drawn + 1, tonumber(now[1]) * 1000000 + tonumber(now[2]))
  if not (first + tokens < 2 ^ 53) then -- also where the counter is nan
    error('token counter ' .. counter .. ' is beyond 2^53')
  end
  redis.call('SET', counter, string.format('%.0f', first + tokens - 1))
  return first
end

local gone = redis.call('GET', mark)
if gone then
  return {-2, gone}
end

if redis.call('HGET', lock, owner) then
  -- PEXPIRE first: a full server does not refuse it, nor what follows it.
  local longest = math.max(redis.call('PTTL', lock), ttl)
  redis.call('PEXPIRE', lock, string.format('%.0f', longest))
  redis.call('HSET', lock, owner, holds)
  return {1, draw()}
end

if redis.call('EXISTS', lock) == 0 then
  local first = draw() -- a full server refuses here, before there is a lock
  redis.call('PEXPIRE', lock, ARGV[2]) -- no key yet: proves the right to it
  redis.call('HSET', lock, owner, holds)
  redis.call('PEXPIRE', lock, ARGV[2])
  return {1, first}
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
