-- timestamp_release: end the hold of the owner and wake the waiters.
--
-- KEYS   1 lock, 2 record
-- ARGV   1 owner, 2 channel, 3... publish commands
-- Reply  1 + receivers   released; -1: the same, but the server refused to publish
--        0               the owner holds nothing
-- Uses   timestamp_release

return timestamp_release(KEYS[1], KEYS[2], ARGV[1], ARGV[2], 3)
