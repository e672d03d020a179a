-- Records one sale, unless a holder with a larger fencing token has written before.
--
-- KEYS[1]  the ledger, a hash: token (the largest one seen), rows, last (the last writer)
-- ARGV[1]  the writer's fencing token, decimal
-- ARGV[2]  the name of the writer
-- ARGV[3]  how many seconds to keep the ledger
--
-- Reply: {'1', token} the row was written; {'0', the largest token seen} it was refused
local function smaller(a, b) -- compares decimals that a Lua number may not hold exactly
  return #a < #b or (#a == #b and a < b)
end

local seen = redis.call('HGET', KEYS[1], 'token')
if seen and smaller(ARGV[1], seen) then
  return {'0', seen}
end
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'last', ARGV[2])
redis.call('HINCRBY', KEYS[1], 'rows', 1)
redis.call('EXPIRE', KEYS[1], ARGV[3])
return {'1', ARGV[1]}
