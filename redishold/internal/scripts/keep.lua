-- keep: end the owner's hold, and leave the lock taken for a while.
--
-- The field that stays is of no claim: who released the lock can neither renew nor
-- acquire it. Redisson waits for its end as for that of any holder's lease.
--
-- One key only, so that a cluster slot on the move does not block it.
--
-- KEYS   1 lock
-- ARGV   1 owner, 2 channel, 3 for how long in ms, 4... the commands to publish with
-- Reply  1 + receivers   released; -1: the same, but the server refused to publish
--        0               the owner holds nothing
-- Uses   publish, ended

local lock, owner, channel, rest = KEYS[1], ARGV[1], ARGV[2], ARGV[3]

if redis.call('HEXISTS', lock, owner) == 0 then
  return 0
end
redis.call('PEXPIRE', lock, rest) -- first: a full server does not refuse it, nor what follows it
redis.call('HSET', lock, owner .. '.kept', '1')
redis.call('HDEL', lock, owner)
return ended(publish(4, channel, '0', '00'))
