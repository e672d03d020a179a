-- counter_probe: may this user run what the scripts of a plain semaphore or of a
-- latch consist of, beyond what probe.lua has tried?
--
-- It works on scratch keys and leaves nothing behind.
--
-- KEYS   1 scratch counter, 2 scratch mark
-- ARGV   1 scratch channel, 2... the commands to publish with
-- Reply  {refusals, command, words, command, words, ...}: what the server
--        refused, with the server's words
-- Uses   try

local counter, channel = KEYS[1], ARGV[1]

redis.call('DEL', counter) -- a write that a full server does not refuse, nor what follows it
try('INCRBY', counter, '1')
redis.call('DEL', counter)
for i = 2, #ARGV do
  try(ARGV[i], channel, '0')
end
return refused
