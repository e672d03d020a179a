-- release: end the owner's hold and wake the waiters.
--
-- One key only, so that a cluster slot on the move does not block it.
--
-- KEYS   1 lock
-- ARGV   1 owner, 2 channel, 3... the commands to publish with
-- Reply  1 + receivers   released; -1: the same, but the server refused to publish
--        0               the owner holds nothing
-- Uses   publish, ended

local lock, owner, channel = KEYS[1], ARGV[1], ARGV[2]

if redis.call('HDEL', lock, owner) == 0 then -- with its last field the hash goes as well
  return 0
end

return ended(publish(3, channel, '0'))
