-- take_back: take a permit off those that are out, and count it as free.
--
-- ZREM first, of nothing: a full server does not refuse it, nor what follows it,
-- and the counter moves only for one who may also take the permit off the set.
--
-- Takes  counter of free permits, permits out, permit id
-- Reply  how many are free now; 0 if that is not known

local function take_back(counter, permits, id)
  redis.call('ZREM', permits, '')
  local free = 0
  if redis.call('EXISTS', counter) == 1 then -- a lost counter is counted again by the next acquire
    free = redis.call('INCRBY', counter, '1')
  end
  redis.call('ZREM', permits, id)
  return free
end
