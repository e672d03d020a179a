-- acquire_all: acquire several locks, each independently of the others.
--
-- KEYS   for each: lock, tombstone of the owner, token counter
-- ARGV   for each: owner; then ttl in ms, hold count, number of tokens to reserve, key
--        prefix of registrations, '' if the caller does not ask who the holders are
-- Reply  for each the reply of acquire.lua; {-3, error} if the server refused it
-- Uses   acquire, each, introduce

local count = #KEYS / 3
local ttl, holds, tokens, prefix = unpack(ARGV, count + 1)

return each(count, function(i)
  local reply = acquire(KEYS[3 * i - 2], KEYS[3 * i - 1], KEYS[3 * i], ARGV[i], ttl, holds, tonumber(tokens))
  return introduce(reply, prefix)
end)
