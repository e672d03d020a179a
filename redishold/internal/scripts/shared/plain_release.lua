-- plain_release: what plain_release.lua does.
--
-- Takes  lock, owner, channel, and the number of the argument from which the
--        commands to publish with stand
-- Reply  as plain_release.lua's
-- Uses   publish, ended

local function plain_release(lock, owner, channel, from)
  if redis.call('GET', lock) ~= owner then
    return 0
  end
  redis.call('DEL', lock)
  return ended(publish(from, channel, '0', '00'))
end
