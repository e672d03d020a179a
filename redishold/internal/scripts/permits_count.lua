-- permits_count: read the number of free permits of a plain semaphore.
--
-- KEYS   1 counter of free permits
-- Reply  {1, free}   0 if the number was never set
--        {-1, 0}     the key is no counter

local value = redis.call('GET', KEYS[1]) or '0'
if not string.match(value, '^-?%d+$') then
  return {-1, 0}
end
return {1, math.min(tonumber(value), 2 ^ 53)} -- a larger number is no real count, and may not fit into an int64
