-- timestamp_acquire: give a timestamp lock to an owner, unless its second is in the future,
-- or another owner of Holdfast still holds it.
--
-- The value of the lock is the Unix second at which it ends, as old clients write it with SETNX
-- and GETSET. The record is a second key for Holdfast: it has the holder, and the second that
-- the holder wrote. The record expires exactly at the end of the lease, and the second is never
-- before that end. So as long as the record exists, the second is not past for an old client
-- with a correct clock.
--
-- KEYS   1 lock, 2 tombstone of the owner, 3 token counter, 4 record
-- ARGV   1 owner, 2 ttl in ms, 3 number of tokens to reserve
-- Reply  first token                granted, now or by an earlier call
--        {0, ms left, holder, '1'}  busy; holder '' for an old client
--        {-1}                       the value is not a time in seconds
--        {-2, tombstone}            the claim was abandoned or forced
-- Uses   draw, tick

local lock, tombstone, counter, record = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local owner, ttl, tokens = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

local now = tick()

-- seconds returns the number in `value`, if it can be a time in seconds between the years 2001
-- and 5138. That excludes times in milliseconds. The number may have a fraction, because some
-- clients write one.
local function seconds(value)
  local s = string.match(value, '^%d+%.?%d*$') and tonumber(value)
  return s and s >= 1e9 and s < 1e11 and s
end

-- write writes the record with a TTL of `ms` milliseconds. It also writes the lock. The value
-- of the lock is the first whole second at or after the end of that TTL, but not before the
-- second `least`.
local function write(ms, least)
  local ends = now + ms * 1000
  local second = math.max(least, math.ceil(ends / 1000000))
  local text = string.format('%.0f', second)
  redis.call('SET', record, text .. ' ' .. owner, 'PX', string.format('%.0f', ms))
  -- For an old client a missing key is a free lock. So the key expires only after the second
  -- that is its value.
  redis.call('SET', lock, text, 'PX', string.format('%.0f', second * 1000 - math.floor(now / 1000) + 1000))
end

local reason = redis.call('GET', tombstone)
if reason then
  return {-2, reason}
end

local value = redis.call('GET', lock)
local stamp = value and seconds(value)
if value and not stamp then
  return {-1}
end

local left = 0 -- ms until the second of the lock is past
if stamp then
  if redis.call('PTTL', lock) >= 0 then
    left = math.ceil((stamp * 1000000 - now) / 1000) -- written by Holdfast
  else
    -- Written by an old client, which may have cut off a fraction. So the second is past only
    -- when the next second begins.
    left = math.ceil(((math.floor(stamp) + 1) * 1000000 - now) / 1000)
  end
end

local wrote, holder = string.match(redis.call('GET', record) or '', '^(%d+) (.*)$')
wrote = tonumber(wrote)
if (not holder or holder == owner and not (stamp and stamp >= wrote)) and left <= 0 then
  local first = draw(counter, tokens) -- a full server refuses here, before there is a lock
  write(ttl, 0)
  return first
end

if holder == owner and stamp and stamp >= wrote then
  -- PEXPIRE first: a full server refuses neither PEXPIRE nor the writes after it.
  local longest = math.max(redis.call('PTTL', record), ttl)
  redis.call('PEXPIRE', record, string.format('%.0f', longest))
  write(longest, wrote)
  return draw(counter, tokens)
end

if holder and holder ~= owner then
  return {0, math.max(left, redis.call('PTTL', record)), holder, '1'}
end
return {0, left, '', '1'}
