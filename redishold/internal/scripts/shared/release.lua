-- release: release one lock, for release.lua, release_all.lua and abandon.lua.
--
-- Takes  lock, owner, channel, index of the first publish command in ARGV
-- Reply  that of release.lua
-- Uses   publish, ended
--
-- For Redisson, 00 is the same number as 0. A waiter of Holdfast that also listens on the
-- channel of the last command ignores 00, because that channel has the message, too.

local function release(lock, owner, channel, from)
  if redis.call('HDEL', lock, owner) == 0 then -- Redis deletes a hash with its last field
    return 0
  end
  return ended(publish(from, channel, '0', '00'))
end
