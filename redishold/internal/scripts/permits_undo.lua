-- permits_undo: release what permits_take took, if it did, and see to it that
-- an attempt that is still under way takes nothing.
--
-- KEYS   1 counter of free permits, 2 mark of the call
-- ARGV   1 how many, 2 ttl of the mark in ms, 3 channel, 4... the commands to publish with
-- Reply  {1, receivers}   released; -1 receivers: the server refused to publish
--        {0, 0}           nothing was taken
-- Uses   publish

local counter, mark = KEYS[1], KEYS[2]
local taken, ttl, channel = ARGV[1], ARGV[2], ARGV[3]

local done = redis.call('GET', mark)
redis.call('PEXPIRE', mark, ttl) -- a full server refuses SET, but not after a write
if done ~= '1' then
  redis.call('SET', mark, '0', 'PX', ttl)
  return {0, 0}
end
redis.call('SET', mark, '1', 'PX', ttl) -- proves the right to it, before the counter moves
local free = 0
if redis.call('EXISTS', counter) == 1 then
  free = redis.call('INCRBY', counter, taken)
end
redis.call('SET', mark, '0', 'PX', ttl)

return {1, free > 0 and publish(4, channel, string.format('%.0f', free)) or 0}
