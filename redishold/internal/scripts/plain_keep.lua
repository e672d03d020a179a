-- plain_keep: end the owner's hold of a plain lock, and leave it taken for a while.
--
-- The value that stays is nobody's: no library deletes or extends a lock with the value
-- of another.
--
-- One key only, so that a cluster slot on the move does not block it.
--
-- KEYS   1 lock
-- ARGV   1 owner, 2 channel, 3 for how long in ms, 4... the commands to publish with
-- Reply  1 + receivers   released; -1: the same, but the server refused to publish
--        0               the lock has another value or none
-- Uses   publish, ended

local lock, owner, channel, rest = KEYS[1], ARGV[1], ARGV[2], ARGV[3]

if redis.call('GET', lock) ~= owner then
  return 0
end
redis.call('PEXPIRE', lock, rest) -- first: a full server does not refuse it, nor what follows it
redis.call('SET', lock, owner .. '.kept', 'PX', rest)
return ended(publish(4, channel, '0', '00'))
