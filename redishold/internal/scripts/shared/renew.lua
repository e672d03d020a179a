-- renew: what renew.lua does for one lock.
--
-- Takes  lock, owner, ttl in ms, holds
-- Reply  as renew.lua's

local function renew(lock, owner, ttl, holds)
  local recorded = redis.call('HGET', lock, owner)
  if not recorded then
    return 0
  end

  -- PEXPIRE first: a full server does not refuse it, nor what follows it.
  local left = redis.call('PTTL', lock)
  redis.call('PEXPIRE', lock, left > tonumber(ttl) and string.format('%.0f', left) or ttl)
  if recorded ~= holds then
    redis.call('HSET', lock, owner, holds)
  end
  return 1
end
