-- rw_read_renew: extend a read hold if its owner still has it, and record the hold count.
--
-- If the timeout key has expired, the script writes it again. That is safe, because no writer
-- was granted the lock as long as the field exists.
--
-- KEYS   1 lock, 2 timeout key of the owner
-- ARGV   1 owner, 2 ttl in ms, 3 hold count
-- Reply  1   extended
--        0   the owner holds nothing
-- Uses   longest

local lock, timeout, owner, ttl, holds = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]

local recorded = redis.call('HGET', lock, owner)
if not recorded then
  return 0
end

-- PEXPIRE first: a full server refuses neither PEXPIRE nor the writes after it.
redis.call('PEXPIRE', lock, longest(lock, ttl))
redis.call('SET', timeout, '1', 'PX', longest(timeout, ttl))
if recorded ~= holds then
  redis.call('HSET', lock, owner, holds)
end
return 1
