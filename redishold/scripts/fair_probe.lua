-- fair_probe: may this user run what the scripts of the fair lock consist of,
-- beside what probe.lua tries?
--
-- It works on scratch keys beside the real ones and leaves nothing behind: it
-- writes only after it has seen that it can expire and delete.
--
-- KEYS   1 scratch lock, 2 scratch mark, 3 scratch counter, 4 scratch queue,
--        5 scratch deadlines, 6 scratch set of the living
-- ARGV   1 scratch channel, 2... the commands to publish with
-- Reply  {refusals, command, words, command, words, ...}: what the server
--        refused, with the server's words
-- Uses   try

local queue, deadlines = KEYS[4], KEYS[5]
local channel, ttl = ARGV[1], '1000'

try('LRANGE', queue, '0', '-1')
try('LINDEX', queue, '0')
try('LLEN', queue)
try('LPOS', queue, 'probe')
try('HMGET', queue, 'probe', 'mode')
for i = 4, 6 do
  try('PEXPIRE', KEYS[i], ttl)
  try('DEL', KEYS[i])
end
try('LPOP', queue)
try('LREM', queue, '0', 'probe')
for i = 5, 6 do
  try('ZSCORE', KEYS[i], 'probe')
  try('ZMSCORE', KEYS[i], 'probe')
  try('ZCOUNT', KEYS[i], '-inf', '0')
  try('ZRANGE', KEYS[i], '-1', '-1', 'WITHSCORES')
  try('ZREM', KEYS[i], 'probe')
  try('ZREMRANGEBYSCORE', KEYS[i], '-inf', '0')
end
local tidy = refused[1] == 0

for i = 2, #ARGV do
  try(ARGV[i], channel, '0')
end

if tidy then
  try('RPUSH', queue, 'probe')
  try('ZADD', deadlines, 'GT', '1', 'probe')
  for i = 4, 6 do
    try('PEXPIRE', KEYS[i], ttl)
    try('DEL', KEYS[i])
  end
else
  would('RPUSH', queue, 'probe')
  would('ZADD', deadlines, 'GT', '1', 'probe')
end
return refused
