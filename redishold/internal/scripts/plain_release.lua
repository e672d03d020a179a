-- plain_release: delete a plain lock if it still has the value of its owner, and wake the
-- waiters.
--
-- The script has only one key, so that a migrating slot of a cluster does not block it.
--
-- KEYS   1 lock
-- ARGV   1 owner, 2 channel, 3... publish commands
-- Reply  1 + receivers   released; -1: the same, but the server refused to publish
--        0               the lock has another value or none
-- Uses   plain_release

return plain_release(KEYS[1], ARGV[1], ARGV[2], 3)
