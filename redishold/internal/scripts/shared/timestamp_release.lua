-- timestamp_release: release one timestamp lock, for timestamp_release.lua and
-- timestamp_abandon.lua.
--
-- Takes  lock, record, owner, channel, index of the first publish command in ARGV
-- Reply  that of timestamp_release.lua
-- Uses   publish, ended

local function timestamp_release(lock, record, owner, channel, from)
  local wrote, holder = string.match(redis.call('GET', record) or '', '^(%d+) (.*)$')
  if holder ~= owner then
    return 0
  end
  -- The script deletes the lock if its second is that of the owner, or is later. A later second
  -- is from an old client that lost the race for the lock, see timestamp_renew. Any other value
  -- belongs to another client, and stays.
  local stamp = tonumber(redis.call('GET', lock) or '')
  local held = stamp and stamp >= tonumber(wrote)
  if held then
    redis.call('DEL', lock)
  end
  redis.call('DEL', record)
  return held and ended(publish(from, channel, '0', '00')) or 0
end
