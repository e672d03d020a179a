-- taken: acquire one lock that is not free, or whose owner has a tombstone, for acquire.lua
-- and acquire_all.lua.
--
-- Takes  lock, tombstone of the owner, token counter; owner, ttl in ms, hold count, number
--        of tokens to reserve
-- Reply  that of acquire.lua
-- Uses   draw, holder

local function taken(lock, tombstone, counter, owner, ttl, holds, tokens)
  local reason = redis.call('GET', tombstone)
  if reason then
    return {-2, reason}
  end

  if redis.call('HEXISTS', lock, 'mode') == 1 then
    redis.call('HDEL', lock, owner) -- as in renew
    return {-1}
  end
  if redis.call('HGET', lock, owner) then
    -- PEXPIRE first: a full server refuses neither PEXPIRE nor the writes after it.
    local longest = math.max(redis.call('PTTL', lock), tonumber(ttl))
    redis.call('PEXPIRE', lock, string.format('%.0f', longest))
    redis.call('HSET', lock, owner, holds)
    return draw(counter, tokens)
  end

  return holder(lock, redis.call('PTTL', lock))
end
