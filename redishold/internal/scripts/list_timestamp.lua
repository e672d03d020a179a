-- list_timestamp: read the locks of some names in the layout Timestamp. It writes nothing.
--
-- KEYS   two for each name: 1 lock, 2 record
-- ARGV   1 maximal number of bytes of a value, 2 the subcommand of PUBSUB that counts
--        listeners, '' for none; then the channel of each name
-- Reply  {{state, pttl, holder, listeners, remaining lease in ms}, ...}, the other
--        elements are as in list_plain. If an old client holds the lock, the holder is the
--        value of the lock. The state is also 'other' if the value is not a time in seconds
-- Uses   tick, allow_wrongtype, listeners

local limit, counting = tonumber(ARGV[1]), ARGV[2]

-- short returns the first bytes of a string, one byte more than the limit. It returns nil if
-- the key has another type.
local function short(key)
  local value = allow_wrongtype(redis.pcall('GETRANGE', key, '0', ARGV[1]))
  return type(value) == 'string' and value or nil
end

local function read(lock, record)
  local value, recorded, other = short(lock), short(record), {'other', -1, '', -1, -1}
  if not value or not recorded or #value > limit then
    return other
  end
  local pttl = redis.call('PTTL', lock)
  local stamp = string.match(value, '^%d+%.?%d*$') and tonumber(value)
  if pttl ~= -2 and (not stamp or stamp < 1e9 or stamp >= 1e11) then
    return other
  end
  local holder = string.match(recorded, '^%d+ (.*)$')
  if holder then
    return {'string', pttl, holder, -1, redis.call('PTTL', record)}
  end
  local left = pttl == -1 and math.ceil(((math.floor(stamp) + 1) * 1000000 - tick()) / 1000) or 0
  if left <= 0 then -- also for the key of an owner whose lease has ended
    return {'free', pttl, '', -1, -2}
  end
  return {'string', pttl, value, -1, left}
end

local found = {}
for i = 1, #KEYS / 2 do
  found[i] = read(KEYS[2 * i - 1], KEYS[2 * i])
end
listeners(counting, {unpack(ARGV, 3)}, function(i, count) found[i][4] = count end)
return found
