-- semaphore_inspect: which permits are out.
--
-- Of very many it shows the first to end.
--
-- KEYS   1 counter of free permits, 2 permits out
-- Reply  {1, {permit id, ms left, ...}}   -1 ms left: it never ends
--        {-1}                             the key is something else

local counter, permits, never = KEYS[1], KEYS[2], 922337203685477

if not string.match(redis.call('GET', counter) or '0', '^-?%d+$') then
  return {-1}
end
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + tonumber(time[2]) / 1000
local out = redis.call('ZRANGEBYSCORE', permits, '(' .. string.format('%.0f', math.floor(now)), '+inf', 'WITHSCORES', 'LIMIT', '0', '1000')
for i = 2, #out, 2 do
  local ends = tonumber(out[i])
  out[i] = ends < never and math.floor(ends - now) or -1
end
return {1, out}
