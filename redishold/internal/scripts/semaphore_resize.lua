-- semaphore_resize: set the total number of permits, held ones included, and wake the
-- waiters.
--
-- KEYS   1 counter of free permits, 2 held permits
-- ARGV   1 total number of permits, 2 channel, 3... publish commands
-- Reply  {1, receivers}   set; -1 receivers: the server refused to publish
--        {-1, 0}          the key is no counter
-- Uses   publish, tick

local counter, permits, total, channel = KEYS[1], KEYS[2], tonumber(ARGV[1]), ARGV[2]

local now = math.floor(tick() / 1000)

local value = redis.call('GET', counter)
if value and not string.match(value, '^-?%d+$') then
  return {-1, 0}
end

-- A ZREM that removes nothing comes first. It proves that the user may run ZREM, before the
-- counter changes.
redis.call('ZREM', permits, '')
local expired = redis.call('ZRANGEBYSCORE', permits, '0', string.format('%.0f', now), 'LIMIT', '0', '1000')
local free = total - redis.call('ZCARD', permits)
redis.call('SET', counter, string.format('%.0f', free), 'KEEPTTL')
if #expired > 0 then
  free = redis.call('INCRBY', counter, string.format('%.0f', #expired))
  redis.call('ZREM', permits, unpack(expired))
end

return {1, free > 0 and publish(3, channel, string.format('%.0f', free)) or 0}
