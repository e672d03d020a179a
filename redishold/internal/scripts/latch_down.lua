-- latch_down: decrement the count of a latch, and open the latch at 0.
--
-- The idempotency key records that the call was done. Before that, the script writes an empty
-- value, which only proves that the user may write the key.
--
-- KEYS   1 latch, 2 idempotency key of the call
-- ARGV   1 ttl of the idempotency key in ms, 2 channel, 3... publish commands
-- Reply  {1, receivers}   done, now or by an earlier attempt; -1 receivers: the
--                         server refused to publish
--        {-1, 0}          the key is no latch
-- Uses   publish, set_expiring

local latch, call_key, ttl, channel = KEYS[1], KEYS[2], ARGV[1], ARGV[2]

if redis.call('GET', call_key) == '1' then
  return {1, 0}
end
local value = redis.call('GET', latch) or '0'
if not string.match(value, '^-?%d+$') then
  return {-1, 0}
end
set_expiring(call_key, '', ttl)
local count = tonumber(value)
if count > 1 then
  redis.call('INCRBY', latch, '-1')
else
  redis.call('DEL', latch)
end
redis.call('SET', call_key, '1', 'PX', ttl)

return {1, count == 1 and publish(3, channel, '0') or 0}
