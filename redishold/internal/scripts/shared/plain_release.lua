-- plain_release: release one plain lock, for plain_release.lua and plain_abandon.lua.
--
-- Takes  lock, owner, channel, index of the first publish command in ARGV
-- Reply  that of plain_release.lua
-- Uses   publish, ended

local function plain_release(lock, owner, channel, from)
  if redis.call('GET', lock) ~= owner then
    return 0
  end
  redis.call('DEL', lock)
  return ended(publish(from, channel, '0', '00'))
end
