-- plain_force: delete a plain lock if it still has the value that the caller read.
--
-- The tombstone has the reason for the owner, if the owner is a client of Holdfast.
--
-- KEYS   1 lock, 2 tombstone of the owner
-- ARGV   1 value, 2 reason, 3 ttl of the tombstone in ms, 4 channel,
--        5... publish commands
-- Reply  1 + receivers   ended; -1: the same, but the server refused to publish
--        0               the lock has another value or none
-- Uses   publish, ended

local lock, tombstone, value = KEYS[1], KEYS[2], ARGV[1]
local reason, ttl, channel = ARGV[2], ARGV[3], ARGV[4]

if redis.call('GET', lock) ~= value then
  return 0
end
redis.call('DEL', lock)
redis.call('SET', tombstone, 'forced: ' .. reason, 'PX', ttl)

return ended(publish(5, channel, '0', '00'))
