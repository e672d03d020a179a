-- plain_acquire: give a plain lock to an owner, unless it has any value.
--
-- KEYS   1 lock, 2 mark of the owner, 3 token counter
-- ARGV   1 owner, 2 ttl in ms, 3 how many tokens to reserve, 4 what registrations begin with,
--        '' if nobody asks for the holder's
-- Reply  first token                granted, now or by an earlier call
--        {0, pttl, value, '1'}      busy; the value is the holder, or what another
--                                   library wrote; pttl -1: it never expires. One element
--                                   more where introduce has something to say
--        {-2, mark}                 the owner was given up or broken
-- Uses   draw, introduce
--
-- The key is written with its TTL in one command, so it never lacks one.

local lock, mark, counter = KEYS[1], KEYS[2], KEYS[3]
local owner, ttl, tokens = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

if redis.call('EXISTS', lock, mark) == 0 then
  local first = draw(counter, tokens) -- a full server refuses here, before there is a lock
  redis.call('SET', lock, owner, 'PX', ARGV[2])
  return first
end

local gone = redis.call('GET', mark)
if gone then
  return {-2, gone}
end

local value = redis.call('GET', lock)
if value == owner then
  -- PEXPIRE first: a full server does not refuse it, nor what follows it.
  local longest = math.max(redis.call('PTTL', lock), ttl)
  redis.call('PEXPIRE', lock, string.format('%.0f', longest))
  return draw(counter, tokens)
end
return introduce({0, redis.call('PTTL', lock), value, '1'}, ARGV[4])
