-- plain_keep: end the hold of the owner of a plain lock, and keep the lock taken for a
-- given time.
--
-- The value that stays belongs to no client, and no library deletes or extends a lock whose
-- value is not its own.
--
-- The script has only one key, so that a migrating slot of a cluster does not block it.
--
-- KEYS   1 lock
-- ARGV   1 owner, 2 channel, 3 how long the lock stays taken in ms, 4... publish commands
-- Reply  1 + receivers   released; -1: the same, but the server refused to publish
--        0               the lock has another value or none
-- Uses   publish, ended

local lock, owner, channel, rest = KEYS[1], ARGV[1], ARGV[2], ARGV[3]

if redis.call('GET', lock) ~= owner then
  return 0
end
redis.call('PEXPIRE', lock, rest) -- PEXPIRE first: a full server refuses neither PEXPIRE nor the writes after it
redis.call('SET', lock, owner .. '.kept', 'PX', rest)
return ended(publish(4, channel, '0', '00'))
