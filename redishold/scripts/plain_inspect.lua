-- plain_inspect: which value a plain lock has.
--
-- KEYS   1 lock
-- Reply  {1, pttl, {value, '1'}}   held; pttl -1: it never expires
--        {0}                       free

local lock = KEYS[1]

local value = redis.call('GET', lock)
if not value then
  return {0}
end
return {1, redis.call('PTTL', lock), {value, '1'}}
