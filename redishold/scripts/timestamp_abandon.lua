-- timestamp_abandon: end a claim of which a timestamp_acquire may still be under
-- way.
--
-- The mark makes that acquire find nothing to grant. The lock goes first: if
-- the mark is refused, the lock is free all the same, and the caller repeats.
--
-- KEYS   1 lock, 2 record, 3 mark of the owner
-- ARGV   1 owner, 2 ttl of the mark in ms, 3 channel, 4... the commands to publish with
-- Reply  1 + receivers   released; -1: the same, but the server refused to publish
--        0               the owner held nothing
-- Uses   publish, ended

local lock, record, mark = KEYS[1], KEYS[2], KEYS[3]
local owner, ttl, channel = ARGV[1], ARGV[2], ARGV[3]

local wrote, holder = string.match(redis.call('GET', record) or '', '^(%d+) (.*)$')
local held = false
if holder == owner then
  local stamp = tonumber(redis.call('GET', lock) or '')
  held = stamp and stamp >= tonumber(wrote) -- as in timestamp_release
  if held then
    redis.call('DEL', lock)
  end
  redis.call('DEL', record)
end

-- A full server refuses SET, but not after a write; this one does nothing else.
redis.call('PEXPIRE', mark, ttl)
redis.call('SET', mark, 'abandoned', 'PX', ttl)

if not held then
  return 0
end

return ended(publish(4, channel, '0', '00'))
