-- fair_wake: tell the first in the queue of a fair lock to try again. It changes
-- nothing.
--
-- KEYS   1 queue
-- ARGV   1 what a waiter's channel begins with, 2... the commands to publish with
-- Reply  how many received it; -1: the server refused to publish
-- Uses   publish

local head = redis.call('LINDEX', KEYS[1], '0')
return head and publish(2, ARGV[1] .. head, '0') or 0
