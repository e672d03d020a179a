-- probe: may this user run all that the other scripts consist of?
--
-- It works on scratch keys beside the real ones and leaves nothing behind: it
-- writes only after it has seen that it can expire and delete.
--
-- KEYS   1 scratch lock, 2 scratch mark, 3 scratch counter
-- ARGV   1 scratch channel, 2... the commands to publish with
-- Reply  {refusals, command, words, command, words, ...}: what the server
--        refused, with the server's words
-- Uses   try

local lock, mark, counter = KEYS[1], KEYS[2], KEYS[3]
local channel, ttl = ARGV[1], '1000'

try('TIME')
try('EXISTS', lock)
try('PTTL', lock)
try('HGET', lock, 'probe')
try('HEXISTS', lock, 'mode')
try('HLEN', lock)
try('HDEL', lock, 'probe')
try('HKEYS', lock)
try('HGETALL', lock)
try('GET', mark)
try('EXISTS', counter)
try('PEXPIRE', lock, ttl)
try('PEXPIRE', mark, ttl)
for i = 1, 3 do
  try('DEL', KEYS[i])
end
local tidy = refused[1] == 0

for i = 2, #ARGV do
  try(ARGV[i], channel, '0')
end

if tidy then
  try('HSET', lock, 'probe', '1')
  try('PEXPIRE', lock, ttl)
  try('DEL', lock)
  try('SET', mark, 'probe', 'PX', ttl)
  try('DEL', mark)
  try('SET', counter, '0', 'PX', ttl, 'GET')
  try('DEL', counter)
else
  would('HSET', lock, 'probe', '1')
  would('SET', mark, 'probe', 'PX', ttl)
end
return refused
