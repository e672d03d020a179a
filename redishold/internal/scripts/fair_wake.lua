-- fair_wake: tell the first in the queue of a fair lock to try again. It changes
-- nothing.
--
-- KEYS   1 queue
-- ARGV   1 what a waiter's channel begins with, 2... the commands to publish with
-- Reply  how many received it; -1: the server refused to publish
-- Uses   publish, whose

local head = redis.call('LINDEX', KEYS[1], '0')
if not head then
  return 0
end
-- It may be Redisson's, which listens on its own channel, or Holdfast's.
local one = publish(2, ARGV[1] .. head, '0')
local other = publish(2, ARGV[1] .. whose(head), '0:0:' .. head)
return math.min(one, other) < 0 and -1 or one + other
