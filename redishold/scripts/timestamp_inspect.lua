-- timestamp_inspect: who holds a timestamp lock.
--
-- KEYS   1 lock, 2 record
-- Reply  {1, ms left, {holder, '1'}}   held; of an old client the holder is the value
--        {0}                           free, or its time is past
--        {-1}                          the value is no time in seconds

local lock, record = KEYS[1], KEYS[2]

local holder = string.match(redis.call('GET', record) or '', '^%d+ (.*)$')
if holder then
  return {1, redis.call('PTTL', record), {holder, '1'}}
end
local value = redis.call('GET', lock)
if not value then
  return {0}
end
local stamp = string.match(value, '^%d+%.?%d*$') and tonumber(value)
if not stamp or stamp < 1e9 or stamp >= 1e11 then
  return {-1}
end
if redis.call('PTTL', lock) >= 0 then
  return {0} -- what is left of an owner whose lease is over
end
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2]) -- µs
local left = math.ceil(((math.floor(stamp) + 1) * 1000000 - now) / 1000)
if left <= 0 then
  return {0}
end
return {1, left, {value, '1'}}
