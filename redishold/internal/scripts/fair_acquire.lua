-- fair_acquire: give the lock to an owner in its turn, or keep its place in the
-- queue.
--
-- KEYS   1 lock, 2 tombstone of the owner, 3 token counter, 4 queue, 5 deadlines of the
--        queue, 6 until when the waiters of Holdfast count as alive
-- ARGV   1 owner, 2 ttl in ms, 3 holds, 4 how many tokens to reserve, 5 how long a waiter
--        counts as alive after a try, in ms, negative if the owner does not wait and needs
--        no place, 6 how long a waiter of Redisson may be silent, in ms, 7 what a waiter's
--        channel begins with, 8 what registrations begin with, '' if nobody asks for the
--        holder's, 9... the commands to publish with
-- Reply  first token                granted, now or by an earlier call
--        {0, pttl, holder, holds, alive, strangers}
--                                   queued. pttl of a free lock, which is another waiter's turn, is
--                                   when to try again. alive is until when the owner counts as alive,
--                                   strangers how many waiters before it are not Holdfast's: both are
--                                   missing if the owner does not wait. introduce may add an element
--        {-1}                       the key is another kind of lock, or none
--        {-2, tombstone}            the owner was given up or forced
-- Uses   draw, limit, publish, tick, whose, holder, introduce
--
-- No key that it writes stays without a TTL, even if the server refuses a command.
-- fairState in internal/e2e/scripttest has the same rules in Go.

local lock, tombstone, counter, queue, deadlines, alive = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local owner, ttl, holds, tokens = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])

-- grant gives the free lock to the owner.
local function grant()
  local first = draw(counter, tokens) -- a full server refuses here, before there is a lock
  redis.call('HSET', lock, owner, holds)
  limit(lock, ARGV[2])
  return first
end

if redis.call('EXISTS', lock, tombstone, queue, deadlines, alive) == 0 then
  return grant()
end

local ended = redis.call('GET', tombstone)
if ended then
  return {-2, ended}
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

-- lasts returns for how long to keep the queue, in ms: until a day after its last deadline,
-- or after the new one. Redisson sets no TTL and extends none, but by then the queue has
-- long become empty.
local function lasts(new)
  local last = tonumber(redis.call('ZRANGE', deadlines, '-1', '-1', 'WITHSCORES')[2] or 0)
  return text(math.max(last, new) - now + day)
end

local function expire(left)
  redis.call('PEXPIRE', queue, left)
  redis.call('PEXPIRE', deadlines, left)
  redis.call('PEXPIRE', alive, left)
end

-- front drops the dead at the head of the queue. It returns the head then, its deadline, and
-- whether any was dropped. A waiter of Holdfast lives as long as it tries, whatever Redisson
-- made of its deadline.
local function front()
  local dropped = false
  while true do
    local head = redis.call('LINDEX', queue, '0')
    if not head or head == owner then
      return head, 0, dropped
    end
    local ends = tonumber(redis.call('ZSCORE', alive, head) or redis.call('ZSCORE', deadlines, head))
    if not ends then -- it would block the queue forever
      ends = now + presence
      local left = lasts(ends)
      expire(left) -- before ZADD, which a full server refuses, but not after a write
      redis.call('ZADD', deadlines, text(ends), head)
      expire(left)
    end
    if ends > now then
      return head, ends, dropped
    end
    redis.call('LPOP', queue)
    redis.call('ZREM', deadlines, head)
    redis.call('ZREM', alive, head)
    dropped = true
  end
end

-- strangers returns how many of the first waiters are not Holdfast's. It is 0 if there are
-- as many live waiters of Holdfast as places. That is wrong while a waiter that Redisson
-- dropped from the queue still counts as alive.
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

-- place keeps the owner's place in the queue, or gives it the last one. It returns until
-- when the owner counts as alive, and how many waiters before it are not Holdfast's;
-- nothing if it does not wait. left is what is left of the holder's lease.
local function place(left)
  if not waits then
    return
  end
  local size, found = redis.call('LLEN', queue), redis.call('LPOS', queue, owner)
  local before = found or size
  local others = strangers(before, size)
  -- Each waiter of Redisson before the owner will take its own silence off this deadline
  -- when it goes; a waiter of Holdfast takes nothing off.
  local ends = now + math.max(left, 0) + presence + others * silence
  local kept = lasts(ends)

  if found then
    -- Entries of waiters that Redisson dropped. This comes first: a full server does not
    -- refuse it, nor what follows it.
    redis.call('ZREMRANGEBYSCORE', alive, '-inf', text(now - day))
  end
  local added = redis.call('ZADD', alive, text(now + presence), owner) -- a full server refuses a new waiter here
  if (not found or added > 0) and redis.pcall('PEXPIRE', alive, kept) ~= 1 then
    redis.call('ZREM', alive, owner)
    redis.call('PEXPIRE', alive, kept) -- refused again: it brings the server's words
  end
  if not found then
    redis.call('RPUSH', queue, owner)
  end
  -- The first in the queue needs nothing of what others left of its deadline. All others
  -- never lower theirs.
  if before == 0 then
    added = added + redis.call('ZADD', deadlines, text(ends), owner)
  else
    added = added + redis.call('ZADD', deadlines, 'GT', text(ends), owner)
  end
  if not found or added > 0 or redis.call('PTTL', queue) < ends - now + day / 2 then
    expire(kept)
  end
  return now + presence, others
end

if pttl ~= -2 then
  local busy = holder(lock, pttl)
  if busy[1] == 0 then -- else there is nothing to queue up for
    busy[5], busy[6] = place(pttl)
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

local lives, others = place(0)
if dropped then
  -- It may be Redisson's, which listens on its own channel, or Holdfast's.
  publish(9, channel .. head, '0')
  publish(9, channel .. whose(head), '0:0:' .. head)
end
return {0, math.max(10, math.min(100, ends - now)), '', '0', lives, others}
