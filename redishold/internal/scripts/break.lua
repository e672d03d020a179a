-- break: end somebody else's hold, if it still is the one that was looked at.
--
-- The tombstone says to the owner what happened, and refuses its acquire if one is
-- still under way. A read-write lock is left alone: others may hold it too.
--
-- KEYS   1 lock, 2 mark of the owner
-- ARGV   1 owner, 2 its holds, 3 why, 4 ttl of the mark in ms, 5 channel,
--        6... the commands to publish with
-- Reply  1 + receivers   ended; -1: the same, but the server refused to publish
--        0               the hold is gone or has changed
-- Uses   publish, ended

local lock, mark, owner, holds = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local why, ttl, channel = ARGV[3], ARGV[4], ARGV[5]

if redis.call('HGET', lock, owner) ~= holds or redis.call('HEXISTS', lock, 'mode') == 1 then
  return 0
end
redis.call('DEL', lock)
redis.call('SET', mark, 'forced: ' .. why, 'PX', ttl)

return ended(publish(6, channel, '0', '00'))
