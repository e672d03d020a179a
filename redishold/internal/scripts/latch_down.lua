-- latch_down: count a latch down by one, and open it at 0.
--
-- A mark per call remembers that it was done; an empty one proves the right to
-- write it, and says nothing.
--
-- KEYS   1 latch, 2 mark of the call
-- ARGV   1 ttl of the mark in ms, 2 channel, 3... the commands to publish with
-- Reply  {1, receivers}   done, now or by an earlier attempt; -1 receivers: the
--                         server refused to publish
--        {-1, 0}          the key is something else
-- Uses   publish, leave_mark

local latch, mark, ttl, channel = KEYS[1], KEYS[2], ARGV[1], ARGV[2]

if redis.call('GET', mark) == '1' then
  return {1, 0}
end
local value = redis.call('GET', latch) or '0'
if not string.match(value, '^-?%d+$') then
  return {-1, 0}
end
leave_mark(mark, '', ttl)
local count = tonumber(value)
if count > 1 then
  redis.call('INCRBY', latch, '-1')
else
  redis.call('DEL', latch)
end
redis.call('SET', mark, '1', 'PX', ttl)

return {1, count == 1 and publish(3, channel, '0') or 0}
