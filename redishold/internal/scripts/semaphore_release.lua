-- semaphore_release: release a permit and wake the waiters.
--
-- KEYS   1 counter of free permits, 2 held permits
-- ARGV   1 permit id, 2 channel, 3... publish commands
-- Reply  1 + receivers   released; -1: the same, but the server refused to publish
--        0               the owner held nothing, or its permit had expired
-- Uses   publish, ended, return_permit, tick

local counter, permits, id, channel = KEYS[1], KEYS[2], ARGV[1], ARGV[2]

local now = math.floor(tick() / 1000)

local own = redis.call('ZSCORE', permits, id)
if not own then
  return 0
end

local free = return_permit(counter, permits, id)

local receivers = free > 0 and publish(3, channel, string.format('%.0f', free)) or 0
if tonumber(own) <= now then
  return 0
end
return ended(receivers)
