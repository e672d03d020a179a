-- force: end the hold of another client, if the hold has not changed since the caller
-- read it.
--
-- The tombstone has the reason for the owner. It also makes the server refuse an acquire of the
-- owner that may still arrive. The script does not end a hold of a read-write lock, because
-- deleting that lock would end all its holds.
--
-- KEYS   1 lock, 2 tombstone of the owner
-- ARGV   1 owner, 2 its hold count, 3 reason, 4 ttl of the tombstone in ms, 5 channel,
--        6... publish commands
-- Reply  1 + receivers   ended; -1: the same, but the server refused to publish
--        0               the hold does not exist any more, or has changed
-- Uses   publish, ended

local lock, tombstone, owner, holds = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local reason, ttl, channel = ARGV[3], ARGV[4], ARGV[5]

if redis.call('HGET', lock, owner) ~= holds or redis.call('HEXISTS', lock, 'mode') == 1 then
  return 0
end
redis.call('DEL', lock)
redis.call('SET', tombstone, 'forced: ' .. reason, 'PX', ttl)

return ended(publish(6, channel, '0', '00'))
