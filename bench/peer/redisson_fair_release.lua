-- redisson_fair_release: give Redisson's fair lock back and wake the next; an
-- algorithm to compare with.
--
-- KEYS   1 lock, 2 queue, 3 the waiters' deadlines, 4 the channels' common beginning
-- ARGV   1 lease in ms, should the count stay above 0; 2 owner; 3 now in ms
-- Reply  1     released
--        0     still held
--        nil   not the owner's

local now = tonumber(ARGV[3])
while true do
	local head = redis.call("LINDEX", KEYS[2], 0)
	local score = head and redis.call("ZSCORE", KEYS[3], head)
	if not score or tonumber(score) > now then
		break
	end
	redis.call("ZREM", KEYS[3], head)
	redis.call("LPOP", KEYS[2])
end
if redis.call("HEXISTS", KEYS[1], ARGV[2]) == 0 then
	return nil
end
if redis.call("HINCRBY", KEYS[1], ARGV[2], -1) > 0 then
	redis.call("PEXPIRE", KEYS[1], ARGV[1])
	return 0
end
redis.call("DEL", KEYS[1])
local next = redis.call("LINDEX", KEYS[2], 0)
if next then
	redis.call("PUBLISH", KEYS[4] .. ":" .. next, "0")
end
return 1
