-- acquire_all: acquire for several locks, each as if it were alone.
--
-- KEYS   for each: lock, mark of the owner, token counter
-- ARGV   1 ttl in ms, 2 holds, 3 how many tokens to reserve; then for each: owner;
--        then what registrations begin with, if somebody asks for the holders'
-- Reply  for each what acquire.lua answers; {-3, words} where the server refused it
-- Uses   acquire, each, introduce

local ttl, holds, tokens = ARGV[1], ARGV[2], tonumber(ARGV[3])

local count = #KEYS / 3

return each(count, function(i)
  local reply = acquire(KEYS[3 * i - 2], KEYS[3 * i - 1], KEYS[3 * i], ARGV[3 + i], ttl, holds, tokens)
  return introduce(reply, ARGV[4 + count])
end)
