-- rw_probe: may this user run what the scripts of read-write locks consist of
-- besides what probe has tried?
--
-- It works on scratch keys beside the real ones and leaves nothing behind: it
-- writes only after it has seen that it can delete.
--
-- KEYS   1 scratch lock, 2 scratch mark, 3 scratch counter, 4 scratch timeout key
-- ARGV   1 scratch channel, 2... the commands to publish with
-- Reply  {refusals, command, words, command, words, ...}: what the server
--        refused, with the server's words
-- Uses   try

local lock, timeout, channel = KEYS[1], KEYS[4], ARGV[1]

try('HSCAN', lock, '0', 'COUNT', '1')
try('PTTL', timeout)
try('DEL', timeout)
local tidy = refused[1] == 0

for i = 2, #ARGV do
  try(ARGV[i], channel, '0')
end

if tidy then
  try('SET', timeout, '1', 'PX', '1000')
  try('DEL', timeout)
else
  would('SET', timeout, '1', 'PX', '1000')
end
return refused
