-- semaphore_break: end somebody else's permit, if it has not ended, and wake the
-- waiters.
--
-- The mark tells the owner what happened, and refuses its acquire if one is
-- still under way.
--
-- KEYS   1 counter of free permits, 2 permits out, 3 mark of the owner, if it is
--        known
-- ARGV   1 permit id, 2 why, 3 ttl of the mark in ms, 4 channel, 5... the commands
--        to publish with
-- Reply  1 + receivers   ended; -1: the same, but the server refused to publish
--        0               the permit is gone or has ended
-- Uses   publish, ended

local counter, permits, mark, id = KEYS[1], KEYS[2], KEYS[3], ARGV[1]
local why, ttl, channel = ARGV[2], ARGV[3], ARGV[4]

local time = redis.call('TIME')
local now = math.floor(tonumber(time[1]) * 1000 + tonumber(time[2]) / 1000)

local own = redis.call('ZSCORE', permits, id)
if not own or tonumber(own) <= now then
  return 0
end

-- ZREM first, of nothing: a full server does not refuse it, nor what follows it,
-- and the counter moves only for one who may also take the permit off the set.
redis.call('ZREM', permits, '')
local free = 0
if redis.call('EXISTS', counter) == 1 then -- a lost counter is counted anew by the next acquire
  free = redis.call('INCRBY', counter, '1')
end
redis.call('ZREM', permits, id)
if mark then
  redis.call('SET', mark, 'forced: ' .. why, 'PX', ttl)
end

return ended(free > 0 and publish(5, channel, string.format('%.0f', free)) or 0)
