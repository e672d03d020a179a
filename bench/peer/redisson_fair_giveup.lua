-- redisson_fair_giveup: leave the queue of Redisson's fair lock; an algorithm to
-- compare with.
--
-- KEYS   1 queue, 2 the waiters' deadlines
-- ARGV   1 owner, 2 how long a waiter lives in ms
-- Reply  nil

local behind = false
for _, other in ipairs(redis.call("LRANGE", KEYS[1], 0, -1)) do
	if behind then
		redis.call("ZINCRBY", KEYS[2], -tonumber(ARGV[2]), other)
	end
	behind = behind or other == ARGV[1]
end
redis.call("ZREM", KEYS[2], ARGV[1])
redis.call("LREM", KEYS[1], 0, ARGV[1])
return nil
