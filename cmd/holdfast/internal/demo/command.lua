-- Runs one command on one key.
--
-- KEYS[1]  the key
-- ARGV[1]  the command, which takes one key as its first argument
-- ARGV[2...]  the arguments after the key
--
-- Reply: the values that the command replies, as strings; '' for a value that does not exist
local reply = redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))
if type(reply) ~= 'table' then
  reply = {reply}
end
local texts = {}
for i, value in ipairs(reply) do
  texts[i] = tostring(value or '')
end
return texts
