-- Sets a value unless a holder with a larger token has set it before.
--
-- KEYS  1 a hash with the fields token and value
-- ARGV  1 token  2 value
--
-- Reply {1, token}         the value is set
--       {0, larger token}  refused, because of the larger token in the hash
--
-- Numbers in Lua are exact up to 2^53, and tokens of Redis are smaller. The reply
-- has the token as a text, because a number in a reply may lose its last digits.
local seen = redis.call('HGET', KEYS[1], 'token')
if seen and tonumber(seen) > tonumber(ARGV[1]) then
  return {0, seen}
end
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'value', ARGV[2])
return {1, ARGV[1]}
