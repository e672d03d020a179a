-- semaphore_force: end the permit of another client, if the permit has not expired, and
-- wake the waiters.
--
-- The tombstone has the reason for the owner. It also makes the server refuse an acquire
-- of the owner that may still arrive.
--
-- KEYS   1 counter of free permits, 2 held permits, 3 tombstone of the owner, if the owner
--        is known
-- ARGV   1 permit id, 2 reason, 3 ttl of the tombstone in ms, 4 channel, 5... publish
--        commands
-- Reply  1 + receivers   ended; -1: the same, but the server refused to publish
--        0               the permit does not exist any more, or has expired
-- Uses   publish, ended, return_permit, tick

local counter, permits, tombstone, id = KEYS[1], KEYS[2], KEYS[3], ARGV[1]
local reason, ttl, channel = ARGV[2], ARGV[3], ARGV[4]

local now = math.floor(tick() / 1000)

local own = redis.call('ZSCORE', permits, id)
if not own or tonumber(own) <= now then
  return 0
end

local free = return_permit(counter, permits, id)
if tombstone then
  redis.call('SET', tombstone, 'forced: ' .. reason, 'PX', ttl)
end

return ended(free > 0 and publish(5, channel, string.format('%.0f', free)) or 0)
