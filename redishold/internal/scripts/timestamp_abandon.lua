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
-- Uses   timestamp_release, leave_mark

local released = timestamp_release(KEYS[1], KEYS[2], ARGV[1], ARGV[3], 4)
leave_mark(KEYS[3], 'abandoned', ARGV[2])
return released
