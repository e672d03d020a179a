-- longest: the new TTL of a key that must not become shorter.
--
-- Takes  key, ttl in ms
-- Reply  the longer of the ttl and the remaining TTL of the key, as text

local function longest(key, ttl)
  return string.format('%.0f', math.max(redis.call('PTTL', key), tonumber(ttl)))
end
