-- release: end the owner's hold and wake the waiters.
--
-- One key only, so that a cluster slot on the move does not block it.
--
-- KEYS   1 lock
-- ARGV   1 owner, 2 channel, 3... the commands to publish with
-- Reply  1 + receivers   released; -1: the same, but the server refused to publish
--        0               the owner holds nothing
-- Uses   release

return release(KEYS[1], ARGV[1], ARGV[2], 3)
