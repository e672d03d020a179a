-- release: end the hold of the owner and wake the waiters.
--
-- It has one key only, so that a migrating slot of a cluster does not block it.
--
-- KEYS   1 lock
-- ARGV   1 owner, 2 channel, 3... publish commands
-- Reply  1 + receivers   released; -1: the same, but the server refused to publish
--        0               the owner holds nothing
-- Uses   release

return release(KEYS[1], ARGV[1], ARGV[2], 3)
