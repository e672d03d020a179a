-- acquire_all: acquire for several locks, each as if it were alone.
--
-- KEYS   for each: lock, mark of the owner, token counter
-- ARGV   for each: owner; then ttl in ms, holds, how many tokens to reserve, what
--        registrations begin with, if somebody asks for the holders'
-- Reply  for each what acquire.lua answers; {-3, words} where the server refused it
-- Uses   acquire, each, introduce

local count = #KEYS / 3
local ttl, holds, tokens, begin = unpack(ARGV, count + 1)

return each(count, function(i)
  local reply = acquire(KEYS[3 * i - 2], KEYS[3 * i - 1], KEYS[3 * i], ARGV[i], ttl, holds, tonumber(tokens))
  return introduce(reply, begin)
end)
