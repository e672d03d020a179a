-- acquire_all: acquire several locks, each independently of the others.
--
-- KEYS   for each: lock, tombstone of the owner, token counter
-- ARGV   for each: owner; then ttl in ms, hold count, number of tokens to reserve
-- Reply  for each the reply of acquire.lua; {-3, error} if the server refused it. If all of them are
--        the same number, only that number
-- Uses   draw, limit, taken, each
--
-- It leaves no key without a TTL, even if the server refuses a command.

local count = #KEYS / 3
local ttl, holds, tokens = unpack(ARGV, count + 1)
tokens = tonumber(tokens)

return each(count, function(i)
  local lock, tombstone, counter, owner = KEYS[3 * i - 2], KEYS[3 * i - 1], KEYS[3 * i], ARGV[i]
  if redis.call('EXISTS', lock, tombstone) == 0 then
    local first = draw(counter, tokens) -- a full server refuses here, before there is a lock
    redis.call('HSET', lock, owner, holds)
    limit(lock, ttl)
    return first
  end
  return taken(lock, tombstone, counter, owner, ttl, holds, tokens)
end)
