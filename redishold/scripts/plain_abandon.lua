-- plain_abandon: end a claim of which a plain_acquire may still be under way.
--
-- The mark makes that acquire find nothing to grant. The lock goes first: if
-- the mark is refused, the lock is free all the same, and the caller repeats.
--
-- KEYS   1 lock, 2 mark of the owner
-- ARGV   1 owner, 2 ttl of the mark in ms, 3 channel, 4... the commands to publish with
-- Reply  1 + receivers   released; -1: the same, but the server refused to publish
--        0               the owner held nothing
-- Uses   publish, ended

local lock, mark, owner, ttl, channel = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]

local held = redis.call('GET', lock) == owner
if held then
  redis.call('DEL', lock)
end

-- A full server refuses SET, but not after a write; this one does nothing else.
redis.call('PEXPIRE', mark, ttl)
redis.call('SET', mark, 'abandoned', 'PX', ttl)

if not held then
  return 0
end

return ended(publish(4, channel, '0', '00'))
