-- semaphore_break: end somebody else's permit, if it has not ended, and wake the
-- waiters.
--
-- The tombstone says to the owner what happened, and refuses its acquire if one is
-- still under way.
--
-- KEYS   1 counter of free permits, 2 permits out, 3 mark of the owner, if it is
--        known
-- ARGV   1 permit id, 2 why, 3 ttl of the mark in ms, 4 channel, 5... the commands
--        to publish with
-- Reply  1 + receivers   ended; -1: the same, but the server refused to publish
--        0               the permit is gone or has ended
-- Uses   publish, ended, take_back, tick

local counter, permits, mark, id = KEYS[1], KEYS[2], KEYS[3], ARGV[1]
local why, ttl, channel = ARGV[2], ARGV[3], ARGV[4]

local now = math.floor(tick() / 1000)

local own = redis.call('ZSCORE', permits, id)
if not own or tonumber(own) <= now then
  return 0
end

local free = take_back(counter, permits, id)
if mark then
  redis.call('SET', mark, 'forced: ' .. why, 'PX', ttl)
end

return ended(free > 0 and publish(5, channel, string.format('%.0f', free)) or 0)
