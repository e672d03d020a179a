-- plain_explain: what became of a plain lock that its owner lost. Runs only
-- after a loss.
--
-- KEYS   1 lock, 2 mark of the owner, 3 token counter
-- Reply  {exists, value, mark, counter exists}, with '' for what there is not

local lock, mark, counter = KEYS[1], KEYS[2], KEYS[3]

local exists, value = redis.call('EXISTS', lock), redis.pcall('GET', lock)
if type(value) ~= 'string' then
  value = '' -- the key may be no string any more
end
return {exists, value, redis.call('GET', mark) or '', redis.call('EXISTS', counter)}
