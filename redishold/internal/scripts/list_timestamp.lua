-- list_timestamp: what is kept under some names of timestamps. It writes nothing.
--
-- KEYS   of each name two: 1 lock, 2 record
-- ARGV   1 how many bytes of a value to show, 2 the subcommand of PUBSUB that
--        counts who listens, '' for none; then of each name its channel
-- Reply  as list_plain, and ms left of the lease: {{state, pttl, holder, listeners,
--        left}, ...}; of an old client the holder is the value. What is no time in
--        seconds is 'other'
-- Uses   tick, looked, listeners

local limit, counting = tonumber(ARGV[1]), ARGV[2]

-- short returns a string, cut after one byte more than is shown; nil for another type.
local function short(key)
  local value = looked(redis.pcall('GETRANGE', key, '0', ARGV[1]))
  return type(value) == 'string' and value or nil
end

local function look(lock, record)
  local value, noted, other = short(lock), short(record), {'other', -1, '', -1, -1}
  if not value or not noted or #value > limit then
    return other
  end
  local pttl = redis.call('PTTL', lock)
  local stamp = string.match(value, '^%d+%.?%d*$') and tonumber(value)
  if pttl ~= -2 and (not stamp or stamp < 1e9 or stamp >= 1e11) then
    return other
  end
  local holder = string.match(noted, '^%d+ (.*)$')
  if holder then
    return {'string', pttl, holder, -1, redis.call('PTTL', record)}
  end
  local left = pttl == -1 and math.ceil(((math.floor(stamp) + 1) * 1000000 - tick()) / 1000) or 0
  if left <= 0 then -- or what is left of an owner whose lease is over
    return {'free', pttl, '', -1, -2}
  end
  return {'string', pttl, value, -1, left}
end

local found = {}
for i = 1, #KEYS / 2 do
  found[i] = look(KEYS[2 * i - 1], KEYS[2 * i])
end
listeners(counting, {unpack(ARGV, 3)}, function(i, count) found[i][4] = count end)
return found
