-- redisson_release: give Redisson's RLock back; an algorithm to compare with.
--
-- KEYS   1 lock, 2 its channel
-- ARGV   1 lease in ms, should the count stay above 0; 2 owner
-- Reply  1     released
--        0     still held
--        nil   not the owner's

if redis.call("HEXISTS", KEYS[1], ARGV[2]) == 0 then
	return nil
end
if redis.call("HINCRBY", KEYS[1], ARGV[2], -1) > 0 then
	redis.call("PEXPIRE", KEYS[1], ARGV[1])
	return 0
end
redis.call("DEL", KEYS[1])
redis.call("PUBLISH", KEYS[2], "0")
return 1
