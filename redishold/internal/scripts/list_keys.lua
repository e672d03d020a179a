-- list_keys: read some keys for operators. It writes nothing.
--
-- KEYS   1... keys
-- ARGV   1 maximal number of members of each key, 2 maximal number of bytes of a string
-- Reply  {{type, pttl, size, value or {member, ...}}, ...}, one for each key; type 'none'
--        if the key does not exist; pttl -1: the key never expires. The size is the number
--        of bytes or of members. The members of a hash are field, value, ...; of a sorted
--        set member, score, ...

local many, long = ARGV[1], ARGV[2]
local last = tostring(tonumber(many) - 1)

local function read(key, kind)
  if kind == 'string' then
    return redis.call('STRLEN', key), redis.call('GETRANGE', key, '0', tostring(tonumber(long) - 1))
  elseif kind == 'hash' then
    return redis.call('HLEN', key), redis.call('HSCAN', key, '0', 'COUNT', many)[2]
  elseif kind == 'zset' then
    return redis.call('ZCARD', key), redis.call('ZRANGE', key, '0', last, 'WITHSCORES')
  elseif kind == 'list' then
    return redis.call('LLEN', key), redis.call('LRANGE', key, '0', last)
  end
  return 0, ''
end

local found = {}
for i, key in ipairs(KEYS) do
  local kind = redis.call('TYPE', key).ok
  local size, value = read(key, kind)
  found[i] = {kind, redis.call('PTTL', key), size, value}
end
return found
