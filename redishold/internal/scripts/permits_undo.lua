-- permits_undo: release the permits that permits_take took, if it took any. An attempt of
-- permits_take that arrives later takes nothing.
--
-- KEYS   1 counter of free permits, 2 idempotency key of the call of permits_take
-- ARGV   1 number of permits, 2 ttl of the idempotency key in ms, 3 channel, 4... publish
--        commands
-- Reply  {1, receivers}   released; -1 receivers: the server refused to publish
--        {0, 0}           nothing was taken
-- Uses   publish

local counter, call_key = KEYS[1], KEYS[2]
local taken, ttl, channel = ARGV[1], ARGV[2], ARGV[3]

local done = redis.call('GET', call_key)
redis.call('PEXPIRE', call_key, ttl) -- a full server refuses SET, but not after a write
if done ~= '1' then
  redis.call('SET', call_key, '0', 'PX', ttl)
  return {0, 0}
end
redis.call('SET', call_key, '1', 'PX', ttl) -- proves that the user may write the key, before the counter changes
local free = 0
if redis.call('EXISTS', counter) == 1 then
  free = redis.call('INCRBY', counter, taken)
end
redis.call('SET', call_key, '0', 'PX', ttl)

return {1, free > 0 and publish(4, channel, string.format('%.0f', free)) or 0}
