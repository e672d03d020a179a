-- permits_count: how many permits of a plain semaphore are free.
--
-- KEYS   1 counter of free permits
-- Reply  {1, free}   0 if nobody has set them yet
--        {-1, 0}     the key is something else

local value = redis.call('GET', KEYS[1]) or '0'
if not string.match(value, '^-?%d+$') then
  return {-1, 0}
end
return {1, math.min(tonumber(value), 2 ^ 53)} -- more is no count, and no int64
