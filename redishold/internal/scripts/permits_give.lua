-- permits_give: add permits to a plain semaphore and wake the waiters.
--
-- INCRBY keeps the TTL that the counter may have. The idempotency key records that the call was
-- done. Before that, the script writes an empty value, which only proves that the user may
-- write the key.
--
-- KEYS   1 counter of free permits, 2 idempotency key of the call
-- ARGV   1 number of permits, 2 ttl of the idempotency key in ms, 3 channel, 4... publish
--        commands
-- Reply  {1, receivers}   added, now or by an earlier attempt; -1 receivers: the
--                         server refused to publish
--        {-1, 0}          the key is no counter
-- Uses   publish, set_expiring

local counter, call_key = KEYS[1], KEYS[2]
local given, ttl, channel = ARGV[1], ARGV[2], ARGV[3]

if redis.call('GET', call_key) == '1' then
  return {1, 0}
end
local value = redis.call('GET', counter)
if value and not string.match(value, '^-?%d+$') then
  return {-1, 0}
end
set_expiring(call_key, '', ttl)
local free = redis.call('INCRBY', counter, given)
redis.call('SET', call_key, '1', 'PX', ttl)

-- Redisson ignores a message of 0 or less.
return {1, free > 0 and publish(4, channel, string.format('%.0f', free)) or 0}
