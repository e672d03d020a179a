-- plain_abandon: end a claim whose plain_acquire may still arrive.
--
-- With the tombstone, the server refuses that acquire. The script releases the lock first, so
-- that the lock is free even if the server refuses to set the tombstone. In that case the
-- caller repeats the script.
--
-- KEYS   1 lock, 2 tombstone of the owner
-- ARGV   1 owner, 2 ttl of the tombstone in ms, 3 channel, 4... publish commands
-- Reply  1 + receivers   released; -1: the same, but the server refused to publish
--        0               the owner held nothing
-- Uses   plain_release, set_expiring

local released = plain_release(KEYS[1], ARGV[1], ARGV[3], 4)
set_expiring(KEYS[2], 'abandoned', ARGV[2])
return released
