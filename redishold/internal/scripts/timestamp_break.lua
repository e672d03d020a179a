-- timestamp_break: end the hold that was looked at: an owner's, or an old
-- client's, of which the value is all that is known.
--
-- The tombstone says to the owner what happened, if it is one of Holdfast's.
--
-- KEYS   1 lock, 2 record, 3 mark of the owner
-- ARGV   1 owner or value, 2 why, 3 ttl of the mark in ms, 4 channel,
--        5... the commands to publish with
-- Reply  1 + receivers   ended; -1: the same, but the server refused to publish
--        0               the hold is gone or has changed
-- Uses   publish, ended

local lock, record, mark, owner = KEYS[1], KEYS[2], KEYS[3], ARGV[1]
local why, ttl, channel = ARGV[2], ARGV[3], ARGV[4]

local holder = string.match(redis.call('GET', record) or '', '^%d+ (.*)$')
if (holder or redis.call('GET', lock)) ~= owner then
  return 0
end
redis.call('DEL', lock)
redis.call('DEL', record)
redis.call('SET', mark, 'forced: ' .. why, 'PX', ttl)

return ended(publish(5, channel, '0', '00'))
