-- plain_probe: may this user run all that the scripts of plain and timestamp
-- locks consist of?
--
-- It works on scratch keys beside the real ones and leaves nothing behind: it
-- writes only after it has seen that it can expire and delete.
--
-- KEYS   1... scratch keys, all of which are strings
-- ARGV   1 scratch channel, 2... the commands to publish with
-- Reply  {refusals, command, words, command, words, ...}: what the server
--        refused, with the server's words
-- Uses   try

local channel, ttl = ARGV[1], '1000'

try('TIME')
for _, key in ipairs(KEYS) do
  try('EXISTS', key)
  try('GET', key)
  try('PTTL', key)
  try('PEXPIRE', key, ttl)
  try('DEL', key)
end
local tidy = refused[1] == 0

for i = 2, #ARGV do
  try(ARGV[i], channel, '0')
end

if tidy then
  for _, key in ipairs(KEYS) do
    try('SET', key, 'probe', 'PX', ttl)
    try('DEL', key)
  end
else
  would('SET', KEYS[1], 'probe', 'PX', ttl)
end
return refused
