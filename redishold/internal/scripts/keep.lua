-- keep: end the hold of the owner, and keep the lock taken for a given time.
--
-- The field that stays belongs to no claim, so the former owner can neither renew nor acquire
-- the lock. For Redisson the field is an ordinary holder, so its clients wait until the lock
-- expires.
--
-- The script has only one key, so that a migrating slot of a cluster does not block it.
--
-- KEYS   1 lock
-- ARGV   1 owner, 2 channel, 3 how long the lock stays taken in ms, 4... publish commands
-- Reply  1 + receivers   released; -1: the same, but the server refused to publish
--        0               the owner holds nothing
-- Uses   publish, ended

local lock, owner, channel, rest = KEYS[1], ARGV[1], ARGV[2], ARGV[3]

if redis.call('HEXISTS', lock, owner) == 0 then
  return 0
end
if redis.call('HEXISTS', lock, 'mode') == 1 then -- another client has taken a read-write lock of that name
  redis.call('HDEL', lock, owner)
  return 0
end
redis.call('PEXPIRE', lock, rest) -- PEXPIRE first: a full server refuses neither PEXPIRE nor the writes after it
redis.call('HSET', lock, owner .. '.kept', '1')
redis.call('HDEL', lock, owner)
return ended(publish(4, channel, '0', '00'))
