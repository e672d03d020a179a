-- doctor_publish: sends a message as the scripts of the locks do.
--
-- KEYS   1 any key in the slot of the channel
-- ARGV   1 PUBLISH or SPUBLISH, 2 channel, 3 message
-- Reply  number of receivers that this server knows

return redis.call(ARGV[1], ARGV[2], ARGV[3])
