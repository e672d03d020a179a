-- scan_readers: read the leases of the readers of a read-write lock. One call reads a
-- bounded number of timeout keys.
--
-- The timeout keys are not among KEYS, because their names are only known after reading the
-- lock. They are in the slot of the lock. If that slot is migrating, and the server refuses to
-- read a timeout key, the reader with that key counts as live.
--
-- Takes  lock, prefix of timeout keys, a field that the scan leaves out, nil for none
-- Reply  four results: the longest lease in ms, -1 if there is none; {field, hold count} of the
--        reader with that lease; the fields of the readers without a lease; whether there may
--        be more readers

local budget = 2000 -- number of timeout keys that may be read

local function timeout_key(prefix, reader, i)
  return prefix .. ':' .. reader .. ':rwlock_timeout:' .. i
end

-- lease returns the longest remaining lease of a reader in ms, or -1 if none is live. It
-- returns nil if the lease is unknown, because the budget is used up, or the slot is migrating.
local function lease(prefix, reader, count)
  local most = -1
  for i = 1, count do
    budget = budget - 1
    local pttl = redis.pcall('PTTL', timeout_key(prefix, reader, i))
    if type(pttl) ~= 'number' or budget < 0 then
      return nil
    end
    if pttl == -1 then
      pttl = 86400000 -- a key without a TTL counts as a lease of a day
    end
    most = math.max(most, pttl)
  end
  return most
end

local function scan_readers(lock, prefix, but)
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
