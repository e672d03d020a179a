-- timestamp_force: end the hold that the caller has read: the hold of an owner of Holdfast,
-- or the hold of an old client, of which only the value of the lock is known.
--
-- The tombstone has the reason for the owner, if the owner is a client of Holdfast.
--
-- KEYS   1 lock, 2 record, 3 tombstone of the owner
-- ARGV   1 owner or value, 2 reason, 3 ttl of the tombstone in ms, 4 channel,
--        5... publish commands
-- Reply  1 + receivers   ended; -1: the same, but the server refused to publish
--        0               the hold does not exist any more, or has changed
-- Uses   publish, ended

local lock, record, tombstone, owner = KEYS[1], KEYS[2], KEYS[3], ARGV[1]
local reason, ttl, channel = ARGV[2], ARGV[3], ARGV[4]

local holder = string.match(redis.call('GET', record) or '', '^%d+ (.*)$')
if (holder or redis.call('GET', lock)) ~= owner then
  return 0
end
redis.call('DEL', lock)
redis.call('DEL', record)
redis.call('SET', tombstone, 'forced: ' .. reason, 'PX', ttl)

return ended(publish(5, channel, '0', '00'))
