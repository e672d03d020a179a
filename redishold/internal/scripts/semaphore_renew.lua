-- semaphore_renew: extend a permit that has not expired.
--
-- An expired permit counts as free, so it is never extended.
--
-- KEYS   1 held permits
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
  -- A ZREM that removes nothing comes first: a full server refuses neither this ZREM nor the
  -- writes after it.
  redis.call('ZREM', permits, '')
  redis.call('ZADD', permits, string.format('%.0f', ends), id)
end
return 1
