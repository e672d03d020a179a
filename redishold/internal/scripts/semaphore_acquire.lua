-- semaphore_acquire: give a permit to an owner, if one is free.
--
-- The layout is that of Redisson's permit-expirable semaphore: the held permits are a
-- sorted set of permit ids. The score of an id is the time at which its permit ends, in ms
-- by the server's clock.
--
-- KEYS   1 counter of free permits, 2 held permits, 3 tombstone of the owner, 4 token
--        counter
-- ARGV   1 permit id, 2 ttl in ms, 3 total number of permits for a new semaphore,
--        4 number of tokens to reserve, 5 channel, 6... publish commands
-- Reply  first token         granted, now or by an earlier call
--        {2, first token, total}
--                            granted; the total number of permits differs from ARGV 3
--        {0, pttl, id, '1'}  busy; id is that of the permit that ends first, '' if no permit
--                            is held. pttl is the rest of its lease, -1 without an end
--        {-1}                the key is no counter
--        {-2, tombstone}     the claim was abandoned or forced
-- Uses   draw, publish, tick
--
-- If the server refuses a command, the counter and the set are still consistent.

local counter, permits, tombstone, token_counter = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local id, ttl, total, tokens = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local channel, chunk, never = ARGV[5], 1000, 922337203685477

local now, ends = math.floor(tick() / 1000), math.ceil(tick() / 1000) + ttl

local function text(number)
  return string.format('%.0f', number)
end

local reason = redis.call('GET', tombstone)
if reason then
  return {-2, reason}
end
local value = redis.call('GET', counter)
if value and not string.match(value, '^-?%d+$') then
  return {-1}
end

local own = redis.call('ZSCORE', permits, id)
if own and tonumber(own) > now then
  -- A ZREM that removes nothing comes first: a full server refuses neither this ZREM nor the
  -- writes after it.
  redis.call('ZREM', permits, '')
  if ends > tonumber(own) then
    redis.call('ZADD', permits, text(ends), id)
  end
  return draw(token_counter, tokens)
end
if own then -- the permit of the owner has expired: make it the first of the expired ones
  redis.call('ZADD', permits, '0', id)
end

-- If the counter was lost, the held permits still count: only the other permits are free.
local held = redis.call('ZCARD', permits)
local stock = tonumber(value) or total - held
local expired = redis.call('ZRANGEBYSCORE', permits, '0', text(now), 'LIMIT', '0', text(chunk))
local free = stock + #expired
local first
if free > 0 then
  first = draw(token_counter, tokens) -- a full server refuses here, before anything has changed
end
if not value then
  redis.call('SET', counter, text(stock))
end
if #expired > 0 then
  redis.call('ZREM', permits, '') -- proves that the user may run ZREM, before the counter changes
  redis.call('INCRBY', counter, text(#expired))
  redis.call('ZREM', permits, unpack(expired))
end

if first then
  redis.call('ZADD', permits, 'XX', '0', '') -- changes nothing, but proves that the user may run ZADD
  local lives = redis.call('PTTL', counter)
  if lives > 0 then
    redis.call('PEXPIRE', permits, text(lives))
  end
  redis.call('INCRBY', counter, '-1')
  redis.call('ZADD', permits, text(ends), id)
  if lives > 0 then
    redis.call('PEXPIRE', permits, text(lives)) -- both keys expire at the same time
  end
  free = free - 1
end

local notify = free > 0 and (#expired > 0 or not value)
if first and not notify and stock + held == total then
  return first -- the usual case
end

if notify then
  publish(6, channel, text(free))
end
if first and stock + held ~= total then
  return {2, first, stock + held}
end
if first then
  return first
end
if #expired == chunk then
  return {0, 0, '', '1'} -- more permits may have expired
end

local nearest = redis.call('ZRANGEBYSCORE', permits, '(' .. text(now), '+inf', 'WITHSCORES', 'LIMIT', '0', '1')
if not nearest[1] or tonumber(nearest[2]) >= never then
  return {0, -1, nearest[1] or '', '1'}
end
return {0, math.ceil(tonumber(nearest[2])) - now, nearest[1], '1'}
