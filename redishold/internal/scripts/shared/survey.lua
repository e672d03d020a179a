-- survey: how long the readers of a read-write lock stay. One call looks at a bounded
-- number of them.
--
-- Their timeout keys are not among KEYS: nobody knows their names before. They lie in
-- the slot of the lock, and where that slot is on the move and they cannot be read,
-- their readers count as live.
--
-- Takes  lock, what timeout keys begin with, a field that is left out if there is one
-- Reply  the longest lease of all others, -1 if there is none; {who has it, its holds}; the
--        fields of readers without a lease; and whether there may be readers beside these

local budget = 2000 -- timeout keys to look at

local function timeout_key(prefix, reader, i)
  return prefix .. ':' .. reader .. ':rwlock_timeout:' .. i
end

-- lease returns what is left of a reader's longest lease, -1 if none is live, or
-- nil if that cannot be notified: the budget is used up, or the slot is on the move.
local function lease(prefix, reader, count)
  local most = -1
  for i = 1, count do
    budget = budget - 1
    local pttl = redis.pcall('PTTL', timeout_key(prefix, reader, i))
    if type(pttl) ~= 'number' or budget < 0 then
      return nil
    end
    if pttl == -1 then
      pttl = 86400000 -- without a TTL it does not end by itself; a day will do
    end
    most = math.max(most, pttl)
  end
  return most
end

local function survey(lock, prefix, but)
  local most, holder, dead, cursor = -1, {'', '0'}, {}, '0'
  repeat
    local page = redis.call('HSCAN', lock, cursor, 'COUNT', 100)
    local fields = page[2]
    cursor = page[1]
    for i = 1, #fields, 2 do
      if fields[i] ~= 'mode' and fields[i] ~= but then
        budget = budget - 1
        local left = lease(prefix, fields[i], tonumber(fields[i + 1]) or 0)
        if not left then
          return most, holder, dead, true
        elseif left < 0 then
          dead[#dead + 1] = fields[i]
        elseif left > most then
          most, holder = left, {fields[i], fields[i + 1]}
        end
      end
    end
  until cursor == '0'
  return most, holder, dead, false
end
