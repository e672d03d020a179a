-- return_permit: remove a permit from the held permits, and add one to the number of free
-- permits.
--
-- A ZREM that removes nothing comes first. A full server refuses neither this ZREM nor the
-- writes after it. And if the user may not run ZREM, the script stops before the counter
-- changes.
--
-- Takes  counter of free permits, held permits, permit id
-- Reply  number of free permits; 0 if it is unknown

local function return_permit(counter, permits, id)
  redis.call('ZREM', permits, '')
  local free = 0
  if redis.call('EXISTS', counter) == 1 then -- otherwise the counter is lost, and the next acquire computes its value
    free = redis.call('INCRBY', counter, '1')
  end
  redis.call('ZREM', permits, id)
  return free
end
