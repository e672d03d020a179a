-- release: what release.lua does for one lock.
--
-- Takes  lock, owner, channel, and the number of the argument from which the
--        commands to publish with stand
-- Reply  as release.lua's
-- Uses   publish, ended

local function release(lock, owner, channel, from)
  if redis.call('HDEL', lock, owner) == 0 then -- with its last field the hash goes as well
    return 0
  end
  return ended(publish(from, channel, '0'))
end
