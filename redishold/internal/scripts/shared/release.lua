-- release: what release.lua does for one lock.
--
-- Takes  lock, owner, channel, and the number of the argument from which the
--        commands to publish with stand
-- Reply  as release.lua's
-- Uses   publish, ended
--
-- 00 is the same number as 0, and so the same message to Redisson. Who listens on the
-- channel of the last command too knows by it that the message comes there as well.

local function release(lock, owner, channel, from)
  if redis.call('HDEL', lock, owner) == 0 then -- with its last field the hash goes as well
    return 0
  end
  return ended(publish(from, channel, '0', '00'))
end
