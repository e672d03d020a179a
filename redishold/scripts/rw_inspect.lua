-- rw_inspect: who holds a read-write lock.
--
-- Of very many holders it shows some. A reader whose leases have all ended is
-- none. The timeout keys are not among KEYS: nobody knows their names before.
--
-- KEYS   1 lock
-- ARGV   1 what timeout keys begin with
-- Reply  {1, {field, holds, pttl, ...}}   held; pttl -1: it never expires
--        {0}                              free
--        {-1}                             another kind of lock, or no lock

local lock, prefix = KEYS[1], ARGV[1]

local mode = redis.call('HGET', lock, 'mode')
if mode ~= 'read' and mode ~= 'write' then
  return {-redis.call('EXISTS', lock)}
end

local total, budget, cursor, holders = redis.call('PTTL', lock), 2000, '0', {}
repeat
  local page = redis.call('HSCAN', lock, cursor, 'COUNT', 100)
  local fields = page[2]
  cursor = page[1]
  for i = 1, #fields, 2 do
    local field, left = fields[i], -2
    if mode == 'write' and string.find(field .. ':', ':write:', 1, true) then
      left = total
    else
      for n = 1, math.min(tonumber(fields[i + 1]) or 0, budget) do
        left = math.max(left, redis.call('PTTL', prefix .. ':' .. field .. ':rwlock_timeout:' .. n))
        budget = budget - 1
      end
    end
    if field ~= 'mode' and left ~= -2 then
      holders[#holders + 1] = field
      holders[#holders + 1] = fields[i + 1]
      holders[#holders + 1] = left
    end
    budget = budget - 1
  end
until cursor == '0' or budget <= 0
return {1, holders}
