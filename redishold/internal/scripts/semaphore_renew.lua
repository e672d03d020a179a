-- semaphore_renew: extend a permit that has not ended.
--
-- One that has ended may be promised to somebody else: it is never brought back.
--
-- KEYS   1 permits out
-- ARGV   1 permit id, 2 ttl in ms
-- Reply  1   extended
--        0   the owner holds nothing
-- Uses   tick

local permits, id, ttl = KEYS[1], ARGV[1], tonumber(ARGV[2])

local now, ends = math.floor(tick() / 1000), math.ceil(tick() / 1000) + ttl

local own = redis.call('ZSCORE', permits, id)
if not own or tonumber(own) <= now then
  return 0
end
if ends > tonumber(own) then
  -- ZREM first, of nothing: a full server does not refuse it, nor what follows it.
  redis.call('ZREM', permits, '')
  redis.call('ZADD', permits, string.format('%.0f', ends), id)
end
return 1
