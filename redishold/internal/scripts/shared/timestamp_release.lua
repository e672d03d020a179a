-- timestamp_release: what timestamp_release.lua does.
--
-- Takes  lock, record, owner, channel, and the number of the argument from which the
--        commands to publish with stand
-- Reply  as timestamp_release.lua's
-- Uses   publish, ended

local function timestamp_release(lock, record, owner, channel, from)
  local wrote, holder = string.match(redis.call('GET', record) or '', '^(%d+) (.*)$')
  if holder ~= owner then
    return 0
  end
  -- A later time than the owner's is that of an old client which lost the race for
  -- it, see timestamp_renew. Another value is somebody else's, and stays.
  local stamp = tonumber(redis.call('GET', lock) or '')
  local held = stamp and stamp >= tonumber(wrote)
  if held then
    redis.call('DEL', lock)
  end
  redis.call('DEL', record)
  return held and ended(publish(from, channel, '0', '00')) or 0
end
