-- semaphore_count: read the numbers of permits. It writes nothing.
--
-- KEYS   1 counter of free permits, 2 held permits
-- Reply  {1, total, free}   expired permits count as free
--        {0, 0, 0}          the semaphore does not exist
--        {-1, 0, 0}         the key is no counter
-- Uses   tick

local counter, permits = KEYS[1], KEYS[2]

local value = redis.call('GET', counter)
if not value then
  return {0, 0, 0}
end
if not string.match(value, '^-?%d+$') then
  return {-1, 0, 0}
end
local now = math.floor(tick() / 1000)
local expired = redis.call('ZCOUNT', permits, '0', string.format('%.0f', now))
return {1, tonumber(value) + redis.call('ZCARD', permits), tonumber(value) + expired}
