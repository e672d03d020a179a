-- latch_set: set the count of an open latch.
--
-- A latch with the count 0 counts as open. Only trySetCount(0) of Redisson leaves such a key.
-- In all other cases, an open latch has no key.
--
-- KEYS   1 latch, 2 idempotency key of the call
-- ARGV   1 count, 2 ttl of the idempotency key in ms, 3 channel, 4... publish commands
-- Reply  {1, receivers}   set, now or by an earlier attempt; -1 receivers: the
--                         server refused to publish
--        {0, 0}           the latch is not open
--        {-1, 0}          the key is no latch
-- Uses   publish, set_expiring

local latch, call_key = KEYS[1], KEYS[2]
local total, ttl, channel = ARGV[1], ARGV[2], ARGV[3]

local done = redis.call('GET', call_key)
if done then
  return {tonumber(done), 0}
end
local value = redis.call('GET', latch)
if value and not string.match(value, '^-?%d+$') then
  return {-1, 0}
end
if value and tonumber(value) > 0 then
  set_expiring(call_key, '0', ttl)
  return {0, 0}
end
redis.call('SET', latch, total)
redis.call('SET', call_key, '1', 'PX', ttl)

return {1, publish(4, channel, '1')}
