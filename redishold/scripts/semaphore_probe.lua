-- semaphore_probe: may this user run what the scripts of a semaphore consist of,
-- beyond what probe.lua has tried?
--
-- It works on scratch keys and leaves nothing behind.
--
-- KEYS   1 scratch counter, 2 scratch permits, 3 scratch mark, 4 scratch token counter
-- ARGV   1 scratch channel, 2... the commands to publish with
-- Reply  {refusals, command, words, command, words, ...}: what the server
--        refused, with the server's words
-- Uses   try

local counter, permits = KEYS[1], KEYS[2]
local channel = ARGV[1]

redis.call('DEL', counter) -- a write that a full server does not refuse, nor what follows it
try('ZSCORE', permits, 'probe')
try('ZCARD', permits)
try('ZCOUNT', permits, '0', '1')
try('ZRANGEBYSCORE', permits, '0', '1', 'LIMIT', '0', '1')
try('ZREM', permits, 'probe')
try('ZADD', permits, '1', 'probe')
redis.call('DEL', permits)
try('INCRBY', counter, '1')
redis.call('DEL', counter)
for i = 2, #ARGV do
  try(ARGV[i], channel, '0')
end
return refused
