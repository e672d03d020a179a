-- latch_set: set the count of a latch that is open.
--
-- A counter at 0 that never opens can only come from Redisson's trySetCount(0):
-- it counts as open.
--
-- KEYS   1 latch, 2 mark of the call
-- ARGV   1 count, 2 ttl of the mark in ms, 3 channel, 4... the commands to publish with
-- Reply  {1, receivers}   set, now or by an earlier attempt; -1 receivers: the
--                         server refused to publish
--        {0, 0}           the latch is counting
--        {-1, 0}          the key is something else
-- Uses   publish, leave_mark

local latch, mark = KEYS[1], KEYS[2]
local total, ttl, channel = ARGV[1], ARGV[2], ARGV[3]

local done = redis.call('GET', mark)
if done then
  return {tonumber(done), 0}
end
local value = redis.call('GET', latch)
if value and not string.match(value, '^-?%d+$') then
  return {-1, 0}
end
if value and tonumber(value) > 0 then
  leave_mark(mark, '0', ttl)
  return {0, 0}
end
redis.call('SET', latch, total)
redis.call('SET', mark, '1', 'PX', ttl)

return {1, publish(4, channel, '1')}
