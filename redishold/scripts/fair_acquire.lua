-- fair_acquire: give the lock to an owner in its turn, or keep its place in the
-- queue.
--
-- KEYS   1 lock, 2 mark of the owner, 3 token counter, 4 queue, 5 deadlines of
--        the queue, 6 until when Holdfast's own waiters count as alive
-- ARGV   1 owner, 2 ttl in ms, 3 holds, 4 how many tokens to reserve, 5 how long
--        a waiter counts as alive after a try, in ms, 6 how long a Redisson
--        waiter may be silent, in ms, 7 what a waiter's channel begins with,
--        8... the commands to publish with
-- Reply  first token                granted, now or by an earlier call
--        {0, pttl, holder, holds}   queued; of a free lock, whose turn is another's: when to look again
--        {-1}                       the key is another kind of lock
--        {-2, mark}                 the owner was given up or broken
-- Uses   draw, limit, publish
--
-- Nothing it writes can stay without a TTL, whatever memory or rights forbid.

local lock, mark, counter, queue, deadlines, alive = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local owner, ttl, holds, tokens = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])

-- grant gives the free lock to the owner.
local function grant()
  local first = draw(counter, tokens) -- a full server refuses here, before there is a lock
  redis.call('HSET', lock, owner, holds)
  limit(lock, ARGV[2])
  return first
end

if redis.call('EXISTS', lock, mark, queue, deadlines, alive) == 0 then
  return grant()
end

local presence, silence, channel = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]
local day = 86400000

local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)

local function text(number) return string.format('%.0f', number) end

-- expire lets the queue end a day after the last of its deadlines. Redisson
-- gives it no TTL, and extends none: by then it has long become empty.
local function expire()
  local last = tonumber(redis.call('ZRANGE', deadlines, '-1', '-1', 'WITHSCORES')[2] or 0)
  local left = text(math.max(last - now, 0) + day)
  redis.call('PEXPIRE', queue, left)
  redis.call('PEXPIRE', deadlines, left)
  redis.call('PEXPIRE', alive, left)
end

-- deadline is when a waiter counts as dead. A try keeps Holdfast's waiters
-- alive, whatever their score has become; to others the score applies. One that
-- has none would block the queue for ever, so it gets one.
local function deadline(waiter)
  local known = redis.call('ZSCORE', alive, waiter) or redis.call('ZSCORE', deadlines, waiter)
  if not known then
    known = text(now + presence)
    expire() -- before ZADD, which a full server refuses, but not after a write
    redis.call('ZADD', deadlines, known, waiter)
    expire()
  end
  return tonumber(known)
end

-- front drops the dead at the head of the queue, and returns who is next, until
-- when, and whether it dropped any.
local function front()
  local dropped = false
  while true do
    local head = redis.call('LINDEX', queue, '0')
    if not head or head == owner then
      return head, 0, dropped
    end
    local ends = deadline(head)
    if ends > now then
      return head, ends, dropped
    end
    redis.call('LPOP', queue)
    redis.call('ZREM', deadlines, head)
    redis.call('ZREM', alive, head)
    dropped = true
  end
end

-- find returns the owner's place in the queue, nil if it has none, and how many
-- of those before it are not Holdfast's.
local function find()
  local strangers = 0
  for place, waiter in ipairs(redis.call('LRANGE', queue, '0', '-1')) do
    if waiter == owner then
      return place, strangers
    elseif not redis.call('ZSCORE', alive, waiter) then
      strangers = strangers + 1
    end
  end
  return nil, strangers
end

-- stay queues the owner up, once, or shows that it is still there. Each Redisson
-- waiter before it will take its own silence off the owner's score when it goes;
-- Holdfast's take nothing off. The first has nobody before it, and needs nothing
-- of what others left it; all others never lower their score.
local function stay(left)
  local place, strangers = find()
  if not place then
    draw(counter, tokens) -- a full server refuses here, before anything is queued
  end
  expire() -- proves the right to it; and what follows is not refused for want of room
  if not place then
    redis.call('ZREMRANGEBYSCORE', alive, '-inf', text(now - day)) -- of those that Redisson dropped
  end
  redis.call('ZADD', alive, text(now + presence), owner)
  local score = text(now + math.max(left, 0) + presence + strangers * silence)
  if place == 1 then
    redis.call('ZADD', deadlines, score, owner)
  else
    redis.call('ZADD', deadlines, 'GT', score, owner)
  end
  expire()
  if not place then
    redis.call('RPUSH', queue, owner)
    expire()
  end
end

local gone = redis.call('GET', mark)
if gone then
  return {-2, gone}
end

if redis.call('HGET', lock, owner) then
  -- PEXPIRE first: a full server does not refuse it, nor what follows it.
  local longest = math.max(redis.call('PTTL', lock), ttl)
  redis.call('PEXPIRE', lock, text(longest))
  redis.call('HSET', lock, owner, holds)
  return draw(counter, tokens)
end

if redis.call('EXISTS', lock) == 1 then
  if redis.call('HEXISTS', lock, 'mode') == 1 then
    return {-1}
  end
  local pttl = redis.call('PTTL', lock)
  stay(pttl)
  if redis.call('HLEN', lock) > 4 then
    return {0, pttl, '', '0'}
  end
  local holder = redis.call('HGETALL', lock)
  return {0, pttl, holder[1], holder[2]}
end

-- The dead are dropped only when the lock is free. Before that they are in
-- nobody's way, and may be alive behind a server or a link that was down.
local head, ends, dropped = front()
if not head or head == owner then
  local first = grant()
  redis.call('LREM', queue, '0', owner)
  redis.call('ZREM', deadlines, owner)
  redis.call('ZREM', alive, owner)
  return first
end

stay(0)
if dropped then
  publish(8, channel .. head, '0')
end
return {0, math.max(10, math.min(100, ends - now)), '', '0'}
