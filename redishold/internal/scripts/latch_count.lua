-- latch_count: read the count of a latch.
--
-- KEYS   1 latch
-- Reply  {1, count}   0: the latch is open
--        {-1, 0}      the key is no latch

local value = redis.call('GET', KEYS[1]) or '0'
if not string.match(value, '^-?%d+$') then
  return {-1, 0}
end
return {1, math.max(0, math.min(tonumber(value), 2 ^ 53))} -- a larger number is no real count, and may not fit into an int64
