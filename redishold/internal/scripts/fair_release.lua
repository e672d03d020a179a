-- fair_release: end the owner's hold or its place in the queue, and if the lock
-- is free then, give it to who is next, or wake who is next.
--
-- A waiter of Holdfast's is given the lock, and notified. Until it has renewed it,
-- it has it for as long as it counts as alive: one that died holds others up no
-- longer than it would have at the head of the queue, and one that does not hear
-- of it finds out with its next try. Others are woken.
--
-- With a mark, an acquire that is still under way finds nothing to grant. The
-- lock goes first: if the mark is refused, the lock is free all the same, and
-- the caller repeats.
--
-- KEYS   1 lock, 2 queue, 3 deadlines of the queue, 4 until when Holdfast's own
--        waiters count as alive, 5 token counter, 6 mark of the owner, if it is
--        to be written
-- ARGV   1 owner, 2 ttl of the mark in ms, 3 what a waiter's channel begins
--        with, 4 for how long the next is given the lock at most, in ms; 0: it is
--        only woken, 5... the commands to publish with
-- Reply  1 + receivers   released; -1: the same, but the server refused to publish
--        0               the owner neither held nor waited
-- Uses   draw, publish, tick, whose, ended, leave_mark

local lock, queue, deadlines, alive, counter, mark = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local owner, ttl, channel, most = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])

local held = redis.call('HDEL', lock, owner) == 1
if mark then
  leave_mark(mark, 'abandoned', ttl)
end
if not held then -- a holder is in no queue
  -- All occurrences: a queue that others broke may have several.
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

-- front drops the dead at the head of the queue, so that the next is head. It
-- returns until when that one is alive, if it is Holdfast's. One without a
-- deadline is left to the next try.
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

-- leave takes the head, which holds the lock now, out of the queue.
local function leave()
  redis.call('LREM', queue, '1', head)
  redis.call('ZREM', deadlines, head)
  redis.call('ZREM', alive, head)
end

-- give gives the free lock to the head, which is alive until then, and returns
-- the message for it: the token, that time, for how long in ms, the length of the
-- lock's key and that key, and whom it is for. What is refused here must not make
-- the release fail; without a lock to give, the message is a wake-up.
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
if not lives then -- Redisson's
  return ended(publish(5, channel .. head, '0'))
end
return ended(publish(5, channel .. whose(head), most > 0 and give(lives) or '0:0:' .. head))
