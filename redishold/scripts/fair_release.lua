-- fair_release: end the owner's hold or its place in the queue, and wake who is
-- next if the lock is free.
--
-- With a mark, an acquire that is still under way finds nothing to grant. The
-- lock goes first: if the mark is refused, the lock is free all the same, and
-- the caller repeats.
--
-- KEYS   1 lock, 2 queue, 3 deadlines of the queue, 4 until when Holdfast's own
--        waiters count as alive, 5 mark of the owner, if it is to be written
-- ARGV   1 owner, 2 ttl of the mark in ms, 3 what a waiter's channel begins
--        with, 4... the commands to publish with
-- Reply  1 + receivers   released; -1: the same, but the server refused to publish
--        0               the owner neither held nor waited
-- Uses   publish, ended

local lock, queue, deadlines, alive, mark = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local owner, ttl, channel = ARGV[1], ARGV[2], ARGV[3]

local held = redis.call('HDEL', lock, owner) == 1
if held and not mark and redis.call('EXISTS', queue, deadlines, alive) == 0 then
  return ended(0) -- nobody waits
end

local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)

-- front drops the dead at the head of the queue and returns who is next. One
-- without a deadline is left to the next try.
local function front()
  while true do
    local head = redis.call('LINDEX', queue, '0')
    if not head then
      return nil
    end
    local ends = redis.call('ZSCORE', alive, head) or redis.call('ZSCORE', deadlines, head)
    if not ends or tonumber(ends) > now then
      return head
    end
    redis.call('LPOP', queue)
    redis.call('ZREM', deadlines, head)
    redis.call('ZREM', alive, head)
  end
end

-- All occurrences: a queue that others broke may have several.
local waited = redis.call('LREM', queue, '0', owner) > 0
redis.call('ZREM', deadlines, owner)
redis.call('ZREM', alive, owner)

if mark then
  -- A full server refuses SET, but not after a write.
  redis.call('PEXPIRE', mark, ttl)
  redis.call('SET', mark, 'abandoned', 'PX', ttl)
end
if not held and not waited then
  return 0
end

local head = redis.call('EXISTS', lock) == 0 and front()
return ended(head and publish(4, channel .. head, '0') or 0)
