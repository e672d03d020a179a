-- semaphore_count: how many permits there are. It writes nothing.
--
-- KEYS   1 counter of free permits, 2 permits out
-- Reply  {1, in all, free}   free counts permits that have ended
--        {0, 0, 0}           nobody has set them yet
--        {-1, 0, 0}          the key is something else
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
