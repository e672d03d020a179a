-- release_all: release several locks, each independently of the others.
--
-- KEYS   for each: lock
-- ARGV   for each: owner, channel; then publish commands
-- Reply  for each the reply of release.lua; {-3, error} if the server refused it. If all of them are
--        the same number, only that number
-- Uses   release, each

return each(#KEYS, function(i)
  return release(KEYS[i], ARGV[2 * i - 1], ARGV[2 * i], 2 * #KEYS + 1)
end)
