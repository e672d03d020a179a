-- scan_readers: read the leases of the readers of a read-write lock. One call reads a
-- bounded number of timeout keys.
--
-- The names of the timeout keys are only known after reading the lock. So a caller first runs a
-- script without these keys. The script replies with the readers, and the caller runs a script
-- again, with their timeout keys among KEYS. scan_readers reads no other timeout key.
--
-- KEYS   timeout keys of readers, from the given index to the last key
-- Takes  lock, prefix of timeout keys, index of the first timeout key in KEYS, a field that the
--        scan leaves out, nil for none
-- Reply  five results: the longest lease in ms, -1 if there is none; {field, hold count} of the
--        reader with that lease; the fields of the readers without a lease; {field, hold count,
--        ...} of the readers whose timeout keys are not among KEYS; whether there may be more
--        readers

-- lease returns the longest remaining lease of a reader in ms, or -1 if none is live. It
-- returns nil if a timeout key of the reader is not in the set `given`.
local function lease(prefix, reader, count, given)
  local most = -1
  for i = 1, count do
    local key = prefix .. ':' .. reader .. ':rwlock_timeout:' .. i
    if not given[key] then
      return nil
    end
    local pttl = redis.call('PTTL', key)
    if pttl == -1 then
      pttl = 86400000 -- a key without a TTL counts as a lease of a day
    end
    most = math.max(most, pttl)
  end
  return most
end

local function scan_readers(lock, prefix, from, but)
  local most, holder, dead, unknown, cursor = -1, {'', '0'}, {}, {}, '0'
  local given, budget = {}, 2000 -- the budget is the number of timeout keys and of readers
  for i = from, #KEYS do
    given[KEYS[i]] = true
  end
  repeat
    local page = redis.call('HSCAN', lock, cursor, 'COUNT', 100)
    local fields = page[2]
    cursor = page[1]
    for i = 1, #fields, 2 do
      if fields[i] ~= 'mode' and fields[i] ~= but then
        local count = tonumber(fields[i + 1]) or 0
        budget = budget - 1 - math.max(count, 0)
        if budget < 0 then
          return most, holder, dead, unknown, true
        end
        local left = lease(prefix, fields[i], count, given)
        if not left then
          unknown[#unknown + 1] = fields[i]
          unknown[#unknown + 1] = fields[i + 1]
        elseif left < 0 then
          dead[#dead + 1] = fields[i]
        elseif left > most then
          most, holder = left, {fields[i], fields[i + 1]}
        end
      end
    end
  until cursor == '0'
  return most, holder, dead, unknown, false
end
