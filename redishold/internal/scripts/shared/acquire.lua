-- acquire: acquire one lock, for acquire.lua and acquire_all.lua. It leaves no key without a
-- TTL, even if the server refuses a command.
--
-- Takes  lock, tombstone of the owner, token counter; owner, ttl in ms, hold count, number
--        of tokens to reserve
-- Reply  that of acquire.lua, without the element of introduce; and true if the lock was free
-- Uses   draw, limit, holder

local function acquire(lock, tombstone, counter, owner, ttl, holds, tokens)
  if redis.call('EXISTS', lock, tombstone) == 0 then
    local first = draw(counter, tokens) -- a full server refuses here, before there is a lock
    redis.call('HSET', lock, owner, holds)
    limit(lock, ttl)
    return first, true
  end

  local reason = redis.call('GET', tombstone)
  if reason then
    return {-2, reason}
  end

  if redis.call('HGET', lock, owner) then
    -- PEXPIRE first: a full server refuses neither it nor the writes after it.
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
