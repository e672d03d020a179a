-- rw_release: end one hold of a read-write lock, of either side, and wake those
-- who may now come in.
--
-- With a mark it is also what ends a claim of which an acquire may still be under
-- way, or somebody else's hold.
--
-- KEYS   1 lock, then the timeout keys of the hold, if it is a reader's; at the end the
--        mark of the owner, if one is to be left
-- ARGV   1 field of the hold; if there is none of that name, its write field
--        2 what timeout keys begin with, 3 channel
--        4 '' or what the hold count must be: else nothing is done, nor marked
--        5 text of the mark, '' if none is to be left, 6 ttl of the mark in ms
--        7... the commands to publish with
-- Reply  1 + receivers   released; -1: the same, but the server refused to publish
--        0               there is no such hold
-- Uses   survey, publish, ended, leave_mark

local lock, field, prefix, channel = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local mark = ARGV[5] ~= '' and KEYS[#KEYS]

-- leave takes the hold away, and returns what to publish.
local function leave(mode, writes)
  if mode == 'write' and not writes then
    redis.call('HDEL', lock, field) -- the write hold stays, with all its time
    return {}
  end
  local longest, _, dead, more = survey(lock, prefix, field)
  if longest < 0 and not more then
    redis.call('DEL', lock)
    -- 1 wakes all waiters of a Java program but a thread that was about to
    -- sleep; 0 is kept for that one.
    return writes and {'1', '0'} or {'0'}
  end
  local pttl = redis.call('PTTL', lock)
  if more then -- nobody knows how long those stay that were not seen
    longest = math.max(longest, pttl)
  end
  if longest < 0 then
    longest = 30000 -- and there is no TTL: that gets Redisson's usual one
  end
  if writes then
    -- A full server does not refuse PEXPIRE, nor what follows it.
    redis.call('PEXPIRE', lock, string.format('%.0f', math.max(longest, pttl, 1)))
    redis.call('HSET', lock, 'mode', 'read')
  end
  dead[#dead + 1] = field
  redis.call('HDEL', lock, unpack(dead))
  redis.call('PEXPIRE', lock, string.format('%.0f', math.max(longest, 1)))
  return writes and {'1'} or {}
end

local mode = redis.call('HGET', lock, 'mode')
local held = mode and redis.call('HGET', lock, field)
if mode == 'write' and not held then
  field = field .. ':write'
  held = redis.call('HGET', lock, field)
end
local writes = mode == 'write' and string.find(field .. ':', ':write:', 1, true)

if ARGV[4] ~= '' and ARGV[4] ~= held then
  return 0
end

local payloads = {}
if held then
  payloads = leave(mode, writes)
  for i = 2, writes and 0 or #KEYS - (mark and 1 or 0) do
    redis.pcall('DEL', KEYS[i]) -- without its field it means nothing, and ends by itself
  end
end

if mark then
  leave_mark(mark, ARGV[5], ARGV[6])
end
if not held then
  return 0
end

local receivers = 0
for _, payload in ipairs(payloads) do
  local heard = publish(7, channel, payload)
  receivers = math.min(receivers, heard) < 0 and -1 or receivers + heard
end
return ended(receivers)
