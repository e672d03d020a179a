-- permits_drain: take all free permits of a plain semaphore.
--
-- INCRBY keeps the TTL that the counter may have. The idempotency key records the number of
-- taken permits. Before that, the script writes an empty value, which only proves that the user
-- may write the key.
--
-- KEYS   1 counter of free permits, 2 idempotency key of the call
-- ARGV   1 ttl of the idempotency key in ms
-- Reply  {1, taken}   now or by an earlier attempt
--        {-1, 0}      the key is no counter
-- Uses   set_expiring

local counter, call_key, ttl = KEYS[1], KEYS[2], ARGV[1]

local done = redis.call('GET', call_key)
if done and done ~= '' then
  return {1, tonumber(done)}
end
local value = redis.call('GET', counter) or '0'
if not string.match(value, '^-?%d+$') then
  return {-1, 0}
end
set_expiring(call_key, '', ttl)
if tonumber(value) <= 0 then -- a negative number of free permits must stay
  value = '0'
else
  redis.call('INCRBY', counter, '-' .. value)
end
redis.call('SET', call_key, value, 'PX', ttl)
return {1, tonumber(value)}
