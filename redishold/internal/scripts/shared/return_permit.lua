-- return_permit: remove a permit from the held ones, and add it to the free ones.
--
-- ZREM of no member comes first: a full server refuses neither it nor the writes after it. And
-- if the user may not run ZREM, the script stops before the counter changes.
--
-- Takes  counter of free permits, held permits, permit id
-- Reply  number of free permits; 0 if it is unknown

local function return_permit(counter, permits, id)
  redis.call('ZREM', permits, '')
  local free = 0
  if redis.call('EXISTS', counter) == 1 then -- otherwise the next acquire computes the lost counter
    free = redis.call('INCRBY', counter, '1')
  end
  redis.call('ZREM', permits, id)
  return free
end
