-- permits_drain: take all free permits of a plain semaphore.
--
-- INCRBY keeps the TTL that the key may have. A mark per call remembers how many
-- there were; an empty one proves the right to write it, and says nothing.
--
-- KEYS   1 counter of free permits, 2 mark of the call
-- ARGV   1 ttl of the mark in ms
-- Reply  {1, taken}   now or by an earlier attempt
--        {-1, 0}      the key is something else
-- Uses   leave_mark

local counter, mark, ttl = KEYS[1], KEYS[2], ARGV[1]

local done = redis.call('GET', mark)
if done and done ~= '' then
  return {1, tonumber(done)}
end
local value = redis.call('GET', counter) or '0'
if not string.match(value, '^-?%d+$') then
  return {-1, 0}
end
leave_mark(mark, '', ttl)
if tonumber(value) <= 0 then -- more are out than there should be: nothing to take, nothing to forgive
  value = '0'
else
  redis.call('INCRBY', counter, '-' .. value)
end
redis.call('SET', mark, value, 'PX', ttl)
return {1, tonumber(value)}
