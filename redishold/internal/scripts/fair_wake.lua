-- fair_wake: wake the first waiter in the queue of a fair lock. It writes nothing.
--
-- KEYS   1 queue
-- ARGV   1 prefix of the channels of waiters, 2... publish commands
-- Reply  number of receivers; -1: the server refused to publish
-- Uses   publish, whose

local head = redis.call('LINDEX', KEYS[1], '0')
if not head then
  return 0
end
-- A waiter of Redisson listens on its own channel. A waiter of Holdfast listens on the channel
-- of its client.
local redisson = publish(2, ARGV[1] .. head, '0')
local holdfast = publish(2, ARGV[1] .. whose(head), '0:0:' .. head)
return math.min(redisson, holdfast) < 0 and -1 or redisson + holdfast
