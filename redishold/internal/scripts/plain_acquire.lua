-- plain_acquire: give a plain lock to an owner, unless the key has another value.
--
-- KEYS   1 lock, 2 tombstone of the owner, 3 token counter
-- ARGV   1 owner, 2 ttl in ms, 3 number of tokens to reserve
-- Reply  first token                granted, now or by an earlier call
--        {0, pttl, value, '1'}      busy; the value is an owner, or the value of another
--                                   library; pttl -1: the key never expires
--        {-2, tombstone}            the claim was abandoned or forced
-- Uses   draw
--
-- One command writes the key with its TTL, so the key is never without a TTL.

local lock, tombstone, counter = KEYS[1], KEYS[2], KEYS[3]
local owner, ttl, tokens = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

if redis.call('EXISTS', lock, tombstone) == 0 then
  local first = draw(counter, tokens) -- a full server refuses here, before there is a lock
  redis.call('SET', lock, owner, 'PX', ARGV[2])
  return first
end

local reason = redis.call('GET', tombstone)
if reason then
  return {-2, reason}
end

local value = redis.call('GET', lock)
if value == owner then
  -- PEXPIRE first: a full server refuses neither PEXPIRE nor the writes after it.
  local longest = math.max(redis.call('PTTL', lock), ttl)
  redis.call('PEXPIRE', lock, string.format('%.0f', longest))
  return draw(counter, tokens)
end
return {0, redis.call('PTTL', lock), value, '1'}
