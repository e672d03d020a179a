-- rw_write_acquire: give the write side of a read-write lock to an owner, unless
-- somebody else holds either side.
--
-- A reader that died leaves its field in the hash for as long as others read. A
-- field without any live timeout key is removed here, so that a writer comes in
-- once the last live reader has left. One call looks at a bounded number.
--
-- The timeout keys of other readers are not among KEYS: nobody knows their names
-- before. They lie in the slot of the lock, and are only read.
--
-- KEYS   1 lock, 2 mark of the owner, 3 token counter
-- ARGV   1 owner, 2 ttl in ms, 3 holds, 4 how many tokens to reserve,
--        5 what timeout keys begin with, 6 what registrations begin with, '' if nobody
--        asks for the holder's
-- Reply  first token                granted, now or by an earlier call
--        {0, pttl, holder, holds}   busy; holder is the field of the writer or of a
--                                   reader, '' if unknown; pttl of the writer, or of
--                                   the reader that stays longest. One element more where
--                                   introduce has something to say
--        {-1}                       the key is another kind of lock
--        {-2, mark}                 the owner was given up or broken
-- Uses   draw, limit, introduce
--
-- Nothing it writes can stay without a TTL, whatever memory or rights forbid.

local lock, mark, counter = KEYS[1], KEYS[2], KEYS[3]
local field, ttl, holds, tokens = ARGV[1] .. ':write', tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])
local prefix = ARGV[5]

local budget = 2000 -- timeout keys to look at

-- lease returns what is left of a reader's longest lease, -1 if none is live, or
-- nil if that cannot be told: the budget is used up, or the slot is on the move.
local function lease(reader, count)
  local longest = -1
  for i = 1, count do
    budget = budget - 1
    local pttl = redis.pcall('PTTL', prefix .. ':' .. reader .. ':rwlock_timeout:' .. i)
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

-- survey returns the longest lease of all readers and who has it, the readers
-- that have none, and whether there may be others.
local function survey()
  local longest, holder, dead, cursor = -1, {'', '0'}, {}, '0'
  repeat
    local page = redis.call('HSCAN', lock, cursor, 'COUNT', 100)
    local fields = page[2]
    cursor = page[1]
    for i = 1, #fields, 2 do
      if fields[i] ~= 'mode' then
        budget = budget - 1
        local left = lease(fields[i], tonumber(fields[i + 1]) or 0)
        if not left then
          return longest, holder, dead, true
        elseif left < 0 then
          dead[#dead + 1] = fields[i]
        elseif left > longest then
          longest, holder = left, {fields[i], fields[i + 1]}
        end
      end
    end
  until cursor == '0'
  return longest, holder, dead, false
end

local found = redis.call('EXISTS', lock, mark) > 0 -- else there is nothing to look at
local gone = found and redis.call('GET', mark)
if gone then
  return {-2, gone}
end

local mode = found and redis.call('HGET', lock, 'mode')
if found and mode ~= 'read' and mode ~= 'write' then
  return {-1}
end

if mode == 'write' and redis.call('HGET', lock, field) then
  -- PEXPIRE first: a full server does not refuse it, nor what follows it.
  local longest = math.max(redis.call('PTTL', lock), ttl)
  redis.call('PEXPIRE', lock, string.format('%.0f', longest))
  redis.call('HSET', lock, field, holds)
  return draw(counter, tokens)
end

if mode == 'write' then
  local pttl = redis.call('PTTL', lock)
  if redis.call('HLEN', lock) <= 64 then
    local fields = redis.call('HGETALL', lock)
    for i = 1, #fields, 2 do
      if string.find(fields[i] .. ':', ':write:', 1, true) then
        return introduce({0, pttl, fields[i], fields[i + 1]}, ARGV[6])
      end
    end
  end
  return {0, pttl, '', '0'}
end

if mode == 'read' then
  local longest, holder, dead, more = survey()
  if longest >= 0 or more then
    if #dead > 0 then
      redis.call('HDEL', lock, unpack(dead))
    end
    if longest < 0 then
      longest = 100 -- soon, to look at the others
    end
    return introduce({0, longest, holder[1], holder[2]}, ARGV[6])
  end
end

local first = draw(counter, tokens) -- a full server refuses here, before anything is changed
if mode then
  redis.call('DEL', lock) -- only dead readers
end
redis.call('HSET', lock, 'mode', 'write', field, holds)
limit(lock, ARGV[2])
return first
