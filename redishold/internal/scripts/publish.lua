-- publish: publish a message.
--
-- KEYS   none; or the lock of a sharded channel, which leads the call to the node of the channel
-- ARGV   1 channel, 2 message, 3... publish commands
-- Reply  number of receivers; -1: the server refused to publish
-- Uses   publish

return publish(3, ARGV[1], ARGV[2])
