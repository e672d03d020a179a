-- semaphore_resize: set how many permits there are in all, those that are out
-- included, and wake the waiters.
--
-- KEYS   1 counter of free permits, 2 permits out
-- ARGV   1 permits in all, 2 channel, 3... the commands to publish with
-- Reply  {1, receivers}   set; -1 receivers: the server refused to publish
--        {-1, 0}          the key is something else
-- Uses   publish, tick

local counter, permits, total, channel = KEYS[1], KEYS[2], tonumber(ARGV[1]), ARGV[2]

local now = math.floor(tick() / 1000)

local value = redis.call('GET', counter)
if value and not string.match(value, '^-?%d+$') then
  return {-1, 0}
end

-- ZREM first, of nothing: it proves the right to it, before the counter moves.
redis.call('ZREM', permits, '')
local expired = redis.call('ZRANGEBYSCORE', permits, '0', string.format('%.0f', now), 'LIMIT', '0', '1000')
local free = total - redis.call('ZCARD', permits)
redis.call('SET', counter, string.format('%.0f', free), 'KEEPTTL')
if #expired > 0 then
  free = redis.call('INCRBY', counter, string.format('%.0f', #expired))
  redis.call('ZREM', permits, unpack(expired))
end

return {1, free > 0 and publish(3, channel, string.format('%.0f', free)) or 0}
