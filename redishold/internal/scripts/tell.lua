-- tell: send a message.
--
-- KEYS   none: a channel has no node
-- ARGV   1 channel, 2 message, 3... the commands to publish with
-- Reply  how many received it; -1: the server refused to publish
-- Uses   publish

return publish(3, ARGV[1], ARGV[2])
