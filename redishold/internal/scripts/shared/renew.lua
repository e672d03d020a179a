-- renew: renew one lock, for renew.lua and renew_all.lua.
--
-- Takes  lock, owner, ttl in ms, hold count
-- Reply  that of renew.lua

local function renew(lock, owner, ttl, holds)
  local recorded = redis.call('HGET', lock, owner)
  if not recorded then
    return 0
  end

  -- Redisson takes a read-write lock over a lock of another kind, because it only looks at the
  -- mode. The field is removed so that it does not count as a reader.
  local writer = string.find(owner .. ':', ':write:', 1, true)
  if not writer and redis.call('HEXISTS', lock, 'mode') == 1 then
    redis.call('HDEL', lock, owner)
    return -1
  end

  -- PEXPIRE first: a full server refuses neither PEXPIRE nor the writes after it.
  local left = redis.call('PTTL', lock)
  redis.call('PEXPIRE', lock, left > tonumber(ttl) and string.format('%.0f', left) or ttl)
  if recorded ~= holds then
    redis.call('HSET', lock, owner, holds)
  end
  return 1
end
