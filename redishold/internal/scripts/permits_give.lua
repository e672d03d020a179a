-- permits_give: give permits to a plain semaphore and wake the waiters.
--
-- INCRBY keeps the TTL that the key may have. A mark per call remembers that it
-- was done; an empty one proves the right to write it, and says nothing.
--
-- KEYS   1 counter of free permits, 2 mark of the call
-- ARGV   1 how many, 2 ttl of the mark in ms, 3 channel, 4... the commands to publish with
-- Reply  {1, receivers}   given, now or by an earlier attempt; -1 receivers: the
--                         server refused to publish
--        {-1, 0}          the key is something else
-- Uses   publish, leave_mark

local counter, mark = KEYS[1], KEYS[2]
local given, ttl, channel = ARGV[1], ARGV[2], ARGV[3]

if redis.call('GET', mark) == '1' then
  return {1, 0}
end
local value = redis.call('GET', counter)
if value and not string.match(value, '^-?%d+$') then
  return {-1, 0}
end
leave_mark(mark, '', ttl)
local free = redis.call('INCRBY', counter, given)
redis.call('SET', mark, '1', 'PX', ttl)

-- Redisson takes no message of 0 or less.
return {1, free > 0 and publish(4, channel, string.format('%.0f', free)) or 0}
