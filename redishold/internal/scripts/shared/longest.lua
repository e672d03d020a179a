-- longest: for how long a key is to last, so that nobody is cut short.
--
-- Takes  the key, and a ttl in ms
-- Reply  the ttl, or what the key has left if that is more, as text

local function longest(key, ttl)
  return string.format('%.0f', math.max(redis.call('PTTL', key), tonumber(ttl)))
end
