-- permits_set: set the permits of a plain semaphore that has none yet.
--
-- KEYS   1 counter of free permits, 2 mark of the call
-- ARGV   1 how many, 2 ttl of the mark in ms, 3 channel, 4... the commands to publish with
-- Reply  {1, receivers}   set, now or by an earlier attempt; -1 receivers: the
--                         server refused to publish
--        {0, 0}           it has been set before
--        {-1, 0}          the key is something else
-- Uses   publish, leave_mark

local counter, mark = KEYS[1], KEYS[2]
local total, ttl, channel = ARGV[1], ARGV[2], ARGV[3]

local done = redis.call('GET', mark)
if done then
  return {tonumber(done), 0}
end
local value = redis.call('GET', counter)
if value and not string.match(value, '^-?%d+$') then
  return {-1, 0}
end
if value then
  leave_mark(mark, '0', ttl)
  return {0, 0}
end
redis.call('SET', counter, total)
redis.call('SET', mark, '1', 'PX', ttl)

return {1, tonumber(total) > 0 and publish(4, channel, total) or 0}
