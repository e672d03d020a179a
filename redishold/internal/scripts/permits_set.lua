-- permits_set: set the number of permits of a plain semaphore, if that number was never
-- set.
--
-- KEYS   1 counter of free permits, 2 idempotency key of the call
-- ARGV   1 number of permits, 2 ttl of the idempotency key in ms, 3 channel, 4... publish
--        commands
-- Reply  {1, receivers}   set, now or by an earlier attempt; -1 receivers: the
--                         server refused to publish
--        {0, 0}           another call has set the number before
--        {-1, 0}          the key is no counter
-- Uses   publish, set_expiring

local counter, call_key = KEYS[1], KEYS[2]
local total, ttl, channel = ARGV[1], ARGV[2], ARGV[3]

local done = redis.call('GET', call_key)
if done then
  return {tonumber(done), 0}
end
local value = redis.call('GET', counter)
if value and not string.match(value, '^-?%d+$') then
  return {-1, 0}
end
if value then
  set_expiring(call_key, '0', ttl)
  return {0, 0}
end
redis.call('SET', counter, total)
redis.call('SET', call_key, '1', 'PX', ttl)

return {1, tonumber(total) > 0 and publish(4, channel, total) or 0}
