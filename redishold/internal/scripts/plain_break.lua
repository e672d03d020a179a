-- plain_break: delete a plain lock that still has the value that was looked at.
--
-- The tombstone says to the owner what happened, if it is one of Holdfast's.
--
-- KEYS   1 lock, 2 mark of the owner
-- ARGV   1 the value, 2 why, 3 ttl of the mark in ms, 4 channel,
--        5... the commands to publish with
-- Reply  1 + receivers   ended; -1: the same, but the server refused to publish
--        0               the lock has another value or none
-- Uses   publish, ended

local lock, mark, value = KEYS[1], KEYS[2], ARGV[1]
local why, ttl, channel = ARGV[2], ARGV[3], ARGV[4]

if redis.call('GET', lock) ~= value then
  return 0
end
redis.call('DEL', lock)
redis.call('SET', mark, 'forced: ' .. why, 'PX', ttl)

return ended(publish(5, channel, '0', '00'))
