-- redisson_fair_acquire: take Redisson's fair lock, or a place in its queue; an
-- algorithm to compare with.
--
-- KEYS   1 lock, 2 queue, 3 the waiters' deadlines
-- ARGV   1 lease in ms, 2 owner, 3 how long a waiter lives in ms, 4 now in ms
-- Reply  nil      taken
--        number   not taken: how long to wait at most in ms

local now = tonumber(ARGV[4])
while true do
	local head = redis.call("LINDEX", KEYS[2], 0)
	local score = head and redis.call("ZSCORE", KEYS[3], head)
	if not score or tonumber(score) > now then
		break
	end
	redis.call("ZREM", KEYS[3], head)
	redis.call("LPOP", KEYS[2])
end
local head = redis.call("LINDEX", KEYS[2], 0)
if redis.call("EXISTS", KEYS[1]) == 0 and (not head or head == ARGV[2]) then
	redis.call("LPOP", KEYS[2])
	redis.call("ZREM", KEYS[3], ARGV[2])
	for _, other in ipairs(redis.call("ZRANGE", KEYS[3], 0, -1)) do
		redis.call("ZINCRBY", KEYS[3], -tonumber(ARGV[3]), other)
	end
	redis.call("HSET", KEYS[1], ARGV[2], 1)
	redis.call("PEXPIRE", KEYS[1], ARGV[1])
	return nil
end
if redis.call("HEXISTS", KEYS[1], ARGV[2]) == 1 then
	redis.call("HINCRBY", KEYS[1], ARGV[2], 1)
	redis.call("PEXPIRE", KEYS[1], ARGV[1])
	return nil
end
if redis.call("ZSCORE", KEYS[3], ARGV[2]) then
	return math.max(0, redis.call("PTTL", KEYS[1]))
end
local tail = redis.call("LINDEX", KEYS[2], -1)
local score = tail and redis.call("ZSCORE", KEYS[3], tail)
local left = score and tonumber(score) - now or redis.call("PTTL", KEYS[1])
redis.call("ZADD", KEYS[3], string.format("%.0f", left + tonumber(ARGV[3]) + now), ARGV[2])
redis.call("RPUSH", KEYS[2], ARGV[2])
return left
