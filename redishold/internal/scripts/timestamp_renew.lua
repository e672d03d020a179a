-- timestamp_renew: extend a timestamp lock if its owner still holds it.
--
-- The value of the lock may differ from the second that the owner wrote. If an old client finds
-- a lock expired, and loses the race to take it, its GETSET has still written a later second.
-- As long as the record of the owner exists, the second of the owner is not past, so a later
-- second is from a client that lost the race. An earlier second may be from a client that won,
-- so it ends the hold.
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
  redis.call('DEL', record) -- as long as the record existed, other clients of Holdfast would wait
  return 0
end

-- PEXPIRE first: a full server refuses neither PEXPIRE nor the writes after it.
local longest = math.max(redis.call('PTTL', record), tonumber(ARGV[2]))
redis.call('PEXPIRE', record, string.format('%.0f', longest))

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2]) -- µs
local second = math.max(wrote, math.ceil((now + longest * 1000) / 1000000))
local text = string.format('%.0f', second)
redis.call('SET', record, text .. ' ' .. owner, 'PX', string.format('%.0f', longest))
redis.call('SET', lock, text, 'PX', string.format('%.0f', second * 1000 - math.floor(now / 1000) + 1000))
return 1
