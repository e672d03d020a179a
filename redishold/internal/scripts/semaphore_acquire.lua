-- semaphore_acquire: give a permit to an owner, if one is free.
--
-- The layout is that of Redisson's permit-expirable semaphore: the permits out
-- are a sorted set, permit id -> when it ends in ms of the server's clock.
--
-- KEYS   1 counter of free permits, 2 permits out, 3 mark of the owner, 4 token counter
-- ARGV   1 permit id, 2 ttl in ms, 3 permits in all if the name is new,
--        4 how many tokens to reserve, 5 channel, 6 what registrations begin with, ''
--        if nobody asks for the holder's, 7... the commands to publish with
-- Reply  first token         granted, now or by an earlier call
--        {2, first token, permits in all}
--                            granted, of another number of permits than ARGV has
--        {0, pttl, id, '1'}  busy; the id of the permit that ends first, and its
--                            pttl, -1 if it never ends; '' if none is out. One
--                            element more where somebody asks, and the answer can be
--                            read: {registration of the holder, '' if there is none,
--                            the server's time in ms, the holder, '' likewise}
--        {-1}                the key is something else
--        {-2, mark}          the owner was given up or broken
-- Uses   draw, publish, millis, tick
--
-- Whatever right is missing, counter and set agree when the script stops.

local counter, permits, mark, drawn_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local id, ttl, total, tokens = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local channel, begin, chunk, never = ARGV[5], ARGV[6], 1000, 922337203685477

local now, ends = math.floor(tick() / 1000), math.ceil(tick() / 1000) + ttl

local function text(number)
  return string.format('%.0f', number)
end

-- name says in a busy answer whose permit it names. The registrations are not
-- among KEYS, as nobody knows their names before: only a single server is asked.
local function name(answer)
  if not begin or begin == '' or #answer[3] ~= 16 then
    return answer
  end
  local stem = string.gsub(string.sub(answer[3], 1, 10), '.', function(c)
    return string.format('%02x', string.byte(c))
  end)
  local client = redis.pcall('GET', begin .. stem)
  local said = client
  if type(client) == 'string' then
    said = #client <= 200 and redis.pcall('GET', begin .. client)
  end
  if said == false or type(said) == 'string' then
    answer[5] = {said or '', millis(), client or ''}
  end
  return answer
end

local gone = redis.call('GET', mark)
if gone then
  return {-2, gone}
end
local value = redis.call('GET', counter)
if value and not string.match(value, '^-?%d+$') then
  return {-1}
end

local own = redis.call('ZSCORE', permits, id)
if own and tonumber(own) > now then
  -- ZREM first, of nothing: a full server does not refuse it, nor what follows it.
  redis.call('ZREM', permits, '')
  if ends > tonumber(own) then
    redis.call('ZADD', permits, text(ends), id)
  end
  return draw(drawn_key, tokens)
end
if own then -- its own permit has ended: the first to be taken back
  redis.call('ZADD', permits, '0', id)
end

-- Where the counter was lost, permits that are out still count.
local out = redis.call('ZCARD', permits)
local stock = tonumber(value) or total - out
local expired = redis.call('ZRANGEBYSCORE', permits, '0', text(now), 'LIMIT', '0', text(chunk))
local free = stock + #expired
local first
if free > 0 then
  first = draw(drawn_key, tokens) -- a full server refuses here, before anything has changed
end
if not value then
  redis.call('SET', counter, text(stock))
end
if #expired > 0 then
  redis.call('ZREM', permits, '') -- proves the right to it, before the counter moves
  redis.call('INCRBY', counter, text(#expired))
  redis.call('ZREM', permits, unpack(expired))
end

if first then
  redis.call('ZADD', permits, 'XX', '0', '') -- no such member: proves the right to it
  local lives = redis.call('PTTL', counter)
  if lives > 0 then
    redis.call('PEXPIRE', permits, text(lives))
  end
  redis.call('INCRBY', counter, '-1')
  redis.call('ZADD', permits, text(ends), id)
  if lives > 0 then
    redis.call('PEXPIRE', permits, text(lives)) -- the semaphore ends as a whole
  end
  free = free - 1
end

if free > 0 and (#expired > 0 or not value) then
  publish(7, channel, text(free))
end
if first and stock + out ~= total then
  return {2, first, stock + out}
end
if first then
  return first
end
if #expired == chunk then
  return {0, 0, '', '1'} -- there may be more to take back
end
local nearest = redis.call('ZRANGEBYSCORE', permits, '(' .. text(now), '+inf', 'WITHSCORES', 'LIMIT', '0', '1')
if not nearest[1] or tonumber(nearest[2]) >= never then
  return name({0, -1, nearest[1] or '', '1'})
end
return name({0, math.ceil(tonumber(nearest[2])) - now, nearest[1], '1'})
