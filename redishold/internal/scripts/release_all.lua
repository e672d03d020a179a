-- release_all: release for several locks, each as if it were alone.
--
-- KEYS   for each: lock
-- ARGV   for each: owner, channel; then the commands to publish with
-- Reply  for each what release.lua answers; {-3, words} where the server refused it
-- Uses   release, each

return each(#KEYS, function(i)
  return release(KEYS[i], ARGV[2 * i - 1], ARGV[2 * i], 2 * #KEYS + 1)
end)
