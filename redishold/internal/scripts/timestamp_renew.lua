-- timestamp_renew: extend a timestamp lock that its owner still holds.
--
-- The value need not be the one that the owner wrote. An old client that took an
-- earlier time for past, and lost the race to GETSET, leaves a later time behind:
-- the recipe puts up with that. While the owner's record lasts its own time is
-- not past, so a later time is a loser's. An earlier time can be that of a
-- winner, and is a loss.
--
-- KEYS   1 lock, 2 record
-- ARGV   1 owner, 2 ttl in ms
-- Reply  1   extended
--        0   the owner holds nothing

local lock, record, owner = KEYS[1], KEYS[2], ARGV[1]

local wrote, holder = string.match(redis.call('GET', record) or '', '^(%d+) (.*)$')
if holder ~= owner then
  return 0
end
wrote = tonumber(wrote)

local stamp = tonumber(redis.call('GET', lock) or '')
if not (stamp and stamp >= wrote) then
  redis.call('DEL', record) -- or it would keep others waiting
  return 0
end

-- PEXPIRE first: a full server does not refuse it, nor what follows it.
local longest = math.max(redis.call('PTTL', record), tonumber(ARGV[2]))
redis.call('PEXPIRE', record, string.format('%.0f', longest))

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2]) -- µs
local second = math.max(wrote, math.ceil((now + longest * 1000) / 1000000))
local text = string.format('%.0f', second)
redis.call('SET', record, text .. ' ' .. owner, 'PX', string.format('%.0f', longest))
redis.call('SET', lock, text, 'PX', string.format('%.0f', second * 1000 - math.floor(now / 1000) + 1000))
return 1
