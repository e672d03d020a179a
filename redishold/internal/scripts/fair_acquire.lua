-- fair_acquire: give the lock to an owner if the owner is first in the queue. Otherwise keep
-- the owner in the queue.
--
-- KEYS   1 lock, 2 tombstone of the owner, 3 token counter, 4 queue, 5 deadlines of the
--        queue, 6 until when Holdfast's waiters count as alive
-- ARGV   1 owner, 2 ttl in ms, 3 hold count, 4 number of tokens to reserve, 5 how long a
--        waiter counts as alive after a try, in ms, negative if the owner must not be added
--        to the queue, 6 how long a waiter of Redisson may be silent, in ms, 7 prefix of
--        the channels of waiters, 8... publish commands
-- Reply  first token                granted, now or by an earlier call
--        {0, pttl, holder, holds, alive, strangers}
--                                   queued. If the lock is free, but another waiter is first,
--                                   pttl is after how many ms to try again. alive is until when the
--                                   owner counts as alive. strangers is the number of waiters
--                                   before the owner that are not Holdfast's. alive and
--                                   strangers are missing if the owner is not in the queue
--        {-1}                       the key is another kind of lock, or no lock
--        {-2, tombstone}            the claim was abandoned or forced
-- Uses   draw, limit, publish, tick, whose, holder
--
-- It leaves no key without a TTL, even if the server refuses a command.
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

local reason = redis.call('GET', tombstone)
if reason then
  return {-2, reason}
end

local found = redis.call('HMGET', lock, owner, 'mode')
local pttl = redis.call('PTTL', lock)
if found[2] then
  redis.call('HDEL', lock, owner) -- as in renew
  return {-1}
end
if found[1] then -- also if a release has granted the lock to the owner
  -- PEXPIRE first: a full server refuses neither PEXPIRE nor the writes after it.
  redis.call('PEXPIRE', lock, string.format('%.0f', math.max(pttl, ttl)))
  redis.call('HSET', lock, owner, holds)
  return draw(counter, tokens)
end

local presence, silence, channel = math.abs(tonumber(ARGV[5])), tonumber(ARGV[6]), ARGV[7]
local waits = tonumber(ARGV[5]) > 0
local day = 86400000

local now = math.floor(tick() / 1000)

local function text(number) return string.format('%.0f', number) end

-- lasts returns the TTL of the queue in ms: it ends a day after the last deadline in the queue,
-- or a day after the deadline `new` if that is later. Redisson neither sets nor extends a TTL,
-- but the queue is empty long before this TTL ends.
local function lasts(new)
  local last = tonumber(redis.call('ZRANGE', deadlines, '-1', '-1', 'WITHSCORES')[2] or 0)
  return text(math.max(last, new) - now + day)
end

local function expire(left)
  redis.call('PEXPIRE', queue, left)
  redis.call('PEXPIRE', deadlines, left)
  redis.call('PEXPIRE', alive, left)
end

-- front removes dead waiters from the head of the queue. It returns the new head, until when
-- that waiter counts as alive, and whether a waiter was removed. A waiter of Holdfast counts as
-- alive as long as it tries, even if Redisson has changed its deadline.
local function front()
  local dropped = false
  while true do
    local head = redis.call('LINDEX', queue, '0')
    if not head or head == owner then
      return head, 0, dropped
    end
    local ends = tonumber(redis.call('ZSCORE', alive, head) or redis.call('ZSCORE', deadlines, head))
    if not ends then -- a waiter without a deadline would block the queue forever
      ends = now + presence
      local left = lasts(ends)
      expire(left) -- before ZADD: a full server refuses neither PEXPIRE nor the ZADD after it
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

-- strangers returns how many waiters at the head of the queue are not Holdfast's. The parameter
-- `first` is how many waiters it examines, and `size` is the length of the queue. It returns 0
-- if Holdfast has as many live waiters as the queue has entries. The result 0 may be wrong
-- while a waiter that Redisson has removed from the queue still counts as alive.
local function strangers(first, size)
  local count = 0
  if first == 0 or redis.call('ZCOUNT', alive, '(' .. text(now), '+inf') >= size then
    return count
  end
  for from = 0, first - 1, 1000 do -- unpack can return a few thousand values
    local some = redis.call('LRANGE', queue, text(from), text(math.min(from + 1000, first) - 1))
    local scores = redis.call('ZMSCORE', alive, unpack(some))
    for i = 1, #some do
      count = count + (scores[i] and 0 or 1)
    end
  end
  return count
end

-- enqueue keeps the owner in the queue, or adds it at the end. It returns until when the owner
-- counts as alive, and the number of waiters before the owner that are not Holdfast's. If the
-- owner must not be added, enqueue returns nothing. The parameter `left` is the remaining lease
-- of the holder in ms.
local function enqueue(left)
  if not waits then
    return
  end
  local size, found = redis.call('LLEN', queue), redis.call('LPOS', queue, owner)
  local before = found or size
  local others = strangers(before, size)
  -- When a waiter of Redisson leaves the queue, Redisson subtracts the time `silence` from the
  -- deadlines of the waiters after it. Holdfast does not do that for its own waiters.
  local ends = now + math.max(left, 0) + presence + others * silence
  local kept = lasts(ends)

  if found then
    -- This removes from `alive` the waiters that Redisson has removed from the queue. It is the
    -- first write, because a full server refuses neither ZREMRANGEBYSCORE nor the writes after
    -- it.
    redis.call('ZREMRANGEBYSCORE', alive, '-inf', text(now - day))
  end
  local added = redis.call('ZADD', alive, text(now + presence), owner) -- a full server refuses a new waiter here
  if (not found or added > 0) and redis.pcall('PEXPIRE', alive, kept) ~= 1 then
    redis.call('ZREM', alive, owner)
    redis.call('PEXPIRE', alive, kept) -- if the server refuses again, this raises its error
  end
  if not found then
    redis.call('RPUSH', queue, owner)
  end
  -- The deadline of the first waiter in the queue may become earlier. The deadlines of others
  -- only become later.
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
  if busy[1] == 0 then -- otherwise the key is no lock
    busy[5], busy[6] = enqueue(pttl)
  end
  return busy
end

-- Dead waiters are only removed when the lock is free. Before that they delay no other waiter.
-- They may even be alive, if their server or their link was down for a while.
local head, ends, dropped = front()
if not head or head == owner then
  local first = grant()
  redis.call('LREM', queue, '0', owner)
  redis.call('ZREM', deadlines, owner)
  redis.call('ZREM', alive, owner)
  return first
end

local lives, others = enqueue(0)
if dropped then
  -- A waiter of Redisson listens on its own channel. A waiter of Holdfast listens on the
  -- channel of its client.
  publish(8, channel .. head, '0')
  publish(8, channel .. whose(head), '0:0:' .. head)
end
return {0, math.max(10, math.min(100, ends - now)), '', '0', lives, others}
