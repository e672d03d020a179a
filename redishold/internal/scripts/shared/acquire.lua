-- acquire: what acquire.lua does for one lock. Nothing it writes can stay without a TTL,
-- whatever memory or rights forbid.
--
-- Takes  lock, mark of the owner, token counter; owner, ttl in ms, holds, how many
--        tokens to reserve
-- Reply  as acquire.lua's; and true if the lock was free
-- Uses   draw, limit, holder

local function acquire(lock, mark, counter, owner, ttl, holds, tokens)
  if redis.call('EXISTS', lock, mark) == 0 then
    local first = draw(counter, tokens) -- a full server refuses here, before there is a lock
    redis.call('HSET', lock, owner, holds)
    limit(lock, ttl)
    return first, true
  end

  local gone = redis.call('GET', mark)
  if gone then
    return {-2, gone}
  end

  if redis.call('HGET', lock, owner) then
    -- PEXPIRE first: a full server does not refuse it, nor what follows it.
    local longest = math.max(redis.call('PTTL', lock), tonumber(ttl))
    redis.call('PEXPIRE', lock, string.format('%.0f', longest))
    redis.call('HSET', lock, owner, holds)
    return draw(counter, tokens)
  end

  if redis.call('HEXISTS', lock, 'mode') == 1 then
    return {-1}
  end
  return holder(lock, redis.call('PTTL', lock))
end
