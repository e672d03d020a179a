-- fair_release: end the hold of the owner, or remove the owner from the queue. If the lock is
-- free then, grant it to the first waiter in the queue, or wake that waiter.
--
-- If the first waiter is one of Holdfast, the script grants it the lock, and notifies it. The
-- first lease ends at the time at which the waiter would count as dead in the queue. So a dead
-- waiter delays the other waiters no longer with the lock than at the head of the queue. If the
-- message is lost, the waiter learns of the grant with its next try. Redisson's waiters are
-- only woken.
--
-- With the tombstone, the server refuses an acquire of the owner that arrives later. The script
-- releases the lock first, so that the lock is free even if the server refuses to set the
-- tombstone. In that case the caller repeats the script.
--
-- KEYS   1 lock, 2 queue, 3 deadlines of the queue, 4 until when Holdfast's waiters count
--        as alive, 5 token counter, 6 tombstone of the owner, if one must be set
-- ARGV   1 owner, 2 ttl of the tombstone in ms, 3 prefix of the channels of waiters,
--        4 maximal first lease of the next waiter in ms; 0 to only wake it, 5... publish
--        commands
-- Reply  1 + receivers   released; -1: the same, but the server refused to publish
--        0               the owner neither held nor waited
-- Uses   draw, publish, tick, whose, ended, set_expiring

local lock, queue, deadlines, alive, counter, tombstone = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local owner, ttl, channel, most = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])

local held = redis.call('HDEL', lock, owner) == 1
if tombstone then
  set_expiring(tombstone, 'abandoned', ttl)
end
if not held then -- a holder is not in the queue
  -- LREM with '0' removes all occurrences: another program may have added the owner twice.
  local waited = redis.call('LREM', queue, '0', owner) > 0
  redis.call('ZREM', deadlines, owner)
  redis.call('ZREM', alive, owner)
  if not waited then
    return 0
  end
end

local head = redis.call('LINDEX', queue, '0')
if not head or redis.call('EXISTS', lock) == 1 then
  return ended(0)
end

local now = math.floor(tick() / 1000)

-- front removes dead waiters from the head of the queue, and sets `head` to the first live
-- waiter. It returns until when this waiter counts as alive, or nil if this waiter is one of
-- Redisson. A waiter without a deadline stays: the next fair_acquire gives it one.
local function front()
  while head do
    local lives = redis.call('ZSCORE', alive, head)
    local ends = lives or redis.call('ZSCORE', deadlines, head)
    if not ends or tonumber(ends) > now then
      return lives
    end
    redis.call('LPOP', queue)
    redis.call('ZREM', deadlines, head)
    redis.call('ZREM', alive, head)
    head = redis.call('LINDEX', queue, '0')
  end
end

-- leave removes the head, which holds the lock now, from the queue.
local function leave()
  redis.call('LREM', queue, '1', head)
  redis.call('ZREM', deadlines, head)
  redis.call('ZREM', alive, head)
end

-- give grants the free lock to the head, which counts as alive until the time `lives`. It
-- returns the message for the head: the token, the time `lives`, the lease in ms, the length of
-- the lock's key, that key, and the owner. If the server refuses a command, give does not fail,
-- because the lock is already released; it returns a wake-up message.
local function give(lives)
  local drawn, token = pcall(function() return draw(counter, 1) end)
  if not drawn or redis.pcall('HSET', lock, head, '1') ~= 1 then
    return '0:0:' .. head
  end
  local left = string.format('%.0f', math.min(tonumber(lives) - now, most))
  if redis.pcall('PEXPIRE', lock, left) ~= 1 then
    redis.call('HDEL', lock, head)
    return '0:0:' .. head
  end
  pcall(leave)
  return string.format('%.0f:%s:%s:%d:', token, lives, left, #lock) .. lock .. ':' .. head
end

local lives = front()
if not head then
  return ended(0)
end
if not lives then -- a waiter of Redisson
  return ended(publish(5, channel .. head, '0'))
end
return ended(publish(5, channel .. whose(head), most > 0 and give(lives) or '0:0:' .. head))
