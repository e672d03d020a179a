-- Runs one command on one key.
--
-- KEYS[1]  the key
-- ARGV[1]  the command, which takes one key as its first argument
-- ARGV[2...]  the arguments after the key
--
-- Reply: that of the command
return redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))
