-- timestamp_acquire: give a timestamp lock to an owner, unless its time is in the
-- future or one of Holdfast's owners still has it.
--
-- The lock is the Unix second at which it ends, as old clients write it with
-- SETNX and GETSET. The record says what they have no place for: its holder,
-- and which second that owner wrote. It lasts exactly as long as the claim, and
-- that second comes no earlier, so an owner with a record is never one whose
-- time an old client with a right clock can take for past.
--
-- KEYS   1 lock, 2 mark of the owner, 3 token counter, 4 record
-- ARGV   1 owner, 2 ttl in ms, 3 how many tokens to reserve, 4 what registrations begin with,
--        '' if nobody asks for the holder's
-- Reply  first token                granted, now or by an earlier call
--        {0, ms left, holder, '1'}  busy; holder '' for an old client. One element more
--                                   where introduce has something to say
--        {-1}                       the value is no time in seconds
--        {-2, mark}                 the owner was given up or broken
-- Uses   draw, introduce, tick

local lock, mark, counter, record = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local owner, ttl, tokens = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

local now = tick()

-- seconds reads a value that can be a time: after 2001, before 5138, and not in
-- milliseconds. Some clients write fractions.
local function seconds(value)
  local s = string.match(value, '^%d+%.?%d*$') and tonumber(value)
  return s and s >= 1e9 and s < 1e11 and s
end

-- write records the owner until ttl ms from now, and lets the lock end in the
-- first whole second after that.
local function write(ms, least)
  local ends = now + ms * 1000
  local second = math.max(least, math.ceil(ends / 1000000))
  local text = string.format('%.0f', second)
  redis.call('SET', record, text .. ' ' .. owner, 'PX', string.format('%.0f', ms))
  -- To an old client a missing key is a free lock, so it goes after its time.
  redis.call('SET', lock, text, 'PX', string.format('%.0f', second * 1000 - math.floor(now / 1000) + 1000))
end

local gone = redis.call('GET', mark)
if gone then
  return {-2, gone}
end

local value = redis.call('GET', lock)
local stamp = value and seconds(value)
if value and not stamp then
  return {-1}
end

local left = 0 -- ms until the lock's time is past
if stamp then
  if redis.call('PTTL', lock) >= 0 then
    left = math.ceil((stamp * 1000000 - now) / 1000) -- written by Holdfast
  else
    -- Written by an old client, which may have cut a fraction off: past when a
    -- whole later second has begun.
    left = math.ceil(((math.floor(stamp) + 1) * 1000000 - now) / 1000)
  end
end

local wrote, holder = string.match(redis.call('GET', record) or '', '^(%d+) (.*)$')
wrote = tonumber(wrote)
if holder == owner and stamp and stamp >= wrote then
  -- PEXPIRE first: a full server does not refuse it, nor what follows it.
  local longest = math.max(redis.call('PTTL', record), ttl)
  redis.call('PEXPIRE', record, string.format('%.0f', longest))
  write(longest, wrote)
  return draw(counter, tokens)
end
if holder and holder ~= owner then
  return introduce({0, math.max(left, redis.call('PTTL', record)), holder, '1'}, ARGV[4])
end
if left > 0 then
  return {0, left, '', '1'}
end

local first = draw(counter, tokens) -- a full server refuses here, before there is a lock
write(ttl, 0)
return first
