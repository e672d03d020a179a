-- rw_release: end one hold of a read-write lock, of either side, and wake those
-- who may now come in.
--
-- With a mark it is also what ends a claim of which an acquire may still be under
-- way, or somebody else's hold.
--
-- The timeout keys of other readers are not among KEYS: nobody knows their names
-- before. They lie in the slot of the lock, and where that slot is on the move
-- and they cannot be read, their readers count as live.
--
-- KEYS   1 lock, 2 mark of the owner, if one is to be left
-- ARGV   1 field of the hold; if there is none of that name, its write field
--        2 what timeout keys begin with, 3 channel
--        4 '' or what the hold count must be: else nothing is done, nor marked
--        5 text of the mark, 6 ttl of the mark in ms
--        7... the commands to publish with
-- Reply  1 + receivers   released; -1: the same, but the server refused to publish
--        0               there is no such hold
-- Uses   publish, ended

local lock, mark, field, prefix, channel = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]

local budget = 2000 -- timeout keys to look at

local function timeout(reader, i)
  return prefix .. ':' .. reader .. ':rwlock_timeout:' .. i
end

-- lease returns what is left of a reader's longest lease, -1 if none is live, or
-- nil if that cannot be told: the budget is used up, or the slot is on the move.
local function lease(reader, count)
  local longest = -1
  for i = 1, count do
    budget = budget - 1
    local pttl = redis.pcall('PTTL', timeout(reader, i))
    if type(pttl) ~= 'number' or budget < 0 then
      return nil
    end
    if pttl == -1 then
      pttl = 86400000 -- without a TTL it does not end by itself; a day will do
    end
    longest = math.max(longest, pttl)
  end
  return longest
end

-- survey returns the longest lease of all readers but the one that leaves, the
-- fields that have none, and whether there may be others.
local function survey()
  local longest, dead, cursor = -1, {}, '0'
  repeat
    local page = redis.call('HSCAN', lock, cursor, 'COUNT', 100)
    local fields = page[2]
    cursor = page[1]
    for i = 1, #fields, 2 do
      if fields[i] ~= 'mode' and fields[i] ~= field then
        budget = budget - 1
        local left = lease(fields[i], tonumber(fields[i + 1]) or 0)
        if not left then
          return longest, dead, true
        elseif left < 0 then
          dead[#dead + 1] = fields[i]
        end
        longest = math.max(longest, left)
      end
    end
  until cursor == '0'
  return longest, dead, false
end

-- leave takes the hold away, and returns what to publish.
local function leave(mode, writes)
  if mode == 'write' and not writes then
    redis.call('HDEL', lock, field) -- the write hold stays, with all its time
    return {}
  end
  local longest, dead, more = survey()
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
  for i = 1, writes and 0 or math.min(tonumber(held) or 0, 1000) do
    redis.pcall('DEL', timeout(field, i)) -- without its field it means nothing, and ends by itself
  end
end

if mark then
  -- A full server refuses SET, but not after a write; this one does nothing else.
  redis.call('PEXPIRE', mark, ARGV[6])
  redis.call('SET', mark, ARGV[5], 'PX', ARGV[6])
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
