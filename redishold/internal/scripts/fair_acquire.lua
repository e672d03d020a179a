-- fair_acquire: give the lock to an owner in its turn, or keep its place in the
-- queue.
--
-- KEYS   1 lock, 2 mark of the owner, 3 token counter, 4 queue, 5 deadlines of
--        the queue, 6 until when Holdfast's own waiters count as alive
-- ARGV   1 owner, 2 ttl in ms, 3 holds, 4 how many tokens to reserve, 5 how long
--        a waiter counts as alive after a try, in ms, negative if the owner does not
--        wait and needs no place, 6 how long a Redisson
--        waiter may be silent, in ms, 7 what a waiter's channel begins with,
--        8 what registrations begin with, '' if nobody asks for the holder's, 9... the
--        commands to publish with
-- Reply  first token                granted, now or by an earlier call
--        {0, pttl, holder, holds, alive, strangers}
--                                   queued. Of a free lock, whose turn is another's: when to look again.
--                                   Until when the owner counts as alive; how many before it are not
--                                   Holdfast's. Without these two if the owner does not wait. One
--                                   element more where introduce has something to say
--        {-1}                       the key is another kind of lock, or none
--        {-2, mark}                 the owner was given up or broken
-- Uses   draw, limit, publish, tick, whose, holder, introduce
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

local keys = redis.call('EXISTS', lock, mark, queue, deadlines, alive)
if keys == 0 then
  return grant()
end

local gone = redis.call('GET', mark)
if gone then
  return {-2, gone}
end

local found = redis.call('HMGET', lock, owner, 'mode')
local pttl = redis.call('PTTL', lock)
if found[1] then -- also where a release gave it the lock
  -- PEXPIRE first: a full server does not refuse it, nor what follows it.
  redis.call('PEXPIRE', lock, string.format('%.0f', math.max(pttl, ttl)))
  redis.call('HSET', lock, owner, holds)
  return draw(counter, tokens)
end
if found[2] then
  return {-1}
end

local presence, silence, channel = math.abs(tonumber(ARGV[5])), tonumber(ARGV[6]), ARGV[7]
local waits = tonumber(ARGV[5]) > 0
local day = 86400000

local now = math.floor(tick() / 1000)

local function text(number) return string.format('%.0f', number) end

-- lasting returns for how long the queue is to be kept: a day after the last of
-- its deadlines, or after one that is about to be added. Redisson gives it no
-- TTL, and extends none: by then it has long become empty.
local function lasting(score)
  local last = tonumber(redis.call('ZRANGE', deadlines, '-1', '-1', 'WITHSCORES')[2] or 0)
  return text(math.max(last, score) - now + day)
end

local function expire()
  local left = lasting(now)
  redis.call('PEXPIRE', queue, left)
  redis.call('PEXPIRE', deadlines, left)
  redis.call('PEXPIRE', alive, left)
end

-- deadline is when a waiter counts as dead. A try keeps Holdfast's waiters
-- alive, whatever their score has become; to others the score applies. One that
-- has none would block the queue forever, so it gets one.
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
    dropped, keys = true, 0 -- who knows which are left
  end
end

-- strangers returns how many of the first waiters are not Holdfast's. None is
-- where as many live as wait: that is wrong for as long as one counts as alive
-- who is not in the queue, because Redisson dropped it.
local function strangers(first, size)
  local count = 0
  if first == 0 or redis.call('ZCOUNT', alive, '(' .. text(now), '+inf') >= size then
    return count
  end
  for from = 0, first - 1, 1000 do -- Lua can pass on a few thousand
    local some = redis.call('LRANGE', queue, text(from), text(math.min(from + 1000, first) - 1))
    local scores = redis.call('ZMSCORE', alive, unpack(some))
    for i = 1, #some do
      count = count + (scores[i] and 0 or 1)
    end
  end
  return count
end

-- score is the deadline of the owner. Each Redisson waiter before it will take
-- its own silence off it when it goes; Holdfast's take nothing off.
local function score(left, others)
  return now + math.max(left, 0) + presence + others * silence
end

-- note writes until when the owner counts as alive, and its deadline. The first
-- has nobody before it, and needs nothing of what others left it; all others
-- never lower it. It returns how many entries it added.
local function note(before, ends)
  local added = redis.call('ZADD', alive, text(now + presence), owner)
  if before == 0 then
    return added + redis.call('ZADD', deadlines, text(ends), owner)
  end
  return added + redis.call('ZADD', deadlines, 'GT', text(ends), owner)
end

-- keep extends the TTLs of the queue, if they would end soon after a deadline.
local function keep(ends)
  if redis.call('PTTL', queue) < ends - now + day / 2 then
    expire()
  end
end

-- establish queues the owner up where keys are missing.
local function establish(before, ends)
  local lasts = lasting(ends)
  redis.call('ZADD', alive, text(now + presence), owner) -- a full server refuses here, before anything is queued
  if redis.pcall('PEXPIRE', alive, lasts) ~= 1 then
    redis.call('ZREM', alive, owner)
    redis.call('PEXPIRE', alive, lasts) -- refused again: it brings the server's words
  end
  note(before, ends)
  redis.call('PEXPIRE', deadlines, lasts)
  redis.call('RPUSH', queue, owner)
  redis.call('PEXPIRE', queue, lasts)
end

-- enqueue queues the owner up. A full server refuses the first thing it writes.
local function enqueue(left)
  local before = redis.call('LLEN', queue)
  local others = strangers(before, before)
  local ends = score(left, others)
  if keys < (pttl == -2 and 3 or 4) then
    establish(before, ends)
  else
    note(before, ends)
    redis.call('RPUSH', queue, owner)
    keep(ends)
  end
  return others
end

-- remain shows that the owner is still there, with so many before it.
local function remain(left, before)
  local others = strangers(before, redis.call('LLEN', queue))
  local ends = score(left, others)
  -- This comes first: a full server does not refuse it, nor what follows it.
  redis.call('ZREMRANGEBYSCORE', alive, '-inf', text(now - day)) -- of those that Redisson dropped
  if note(before, ends) > 0 then
    expire()
  else
    keep(ends)
  end
  return others
end

-- stay lets the owner have a place in the queue, and returns until when it counts as
-- alive and how many of those before it are not Holdfast's; nothing if it does not wait.
local function stay(left)
  if not waits then
    return
  end
  local before = redis.call('LPOS', queue, owner)
  if before then
    return now + presence, remain(left, before)
  end
  return now + presence, enqueue(left)
end

if pttl ~= -2 then
  local busy = holder(lock, pttl)
  if busy[1] == 0 then -- else there is nothing to queue up for
    busy[5], busy[6] = stay(pttl)
  end
  return introduce(busy, ARGV[8])
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

local lives, others = stay(0)
if dropped then
  -- It may be Redisson's, which listens on its own channel, or Holdfast's.
  publish(9, channel .. head, '0')
  publish(9, channel .. whose(head), '0:0:' .. head)
end
return {0, math.max(10, math.min(100, ends - now)), '', '0', lives, others}
