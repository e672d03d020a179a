-- timestamp_explain: what became of a timestamp lock that its owner lost. Runs
-- only after a loss.
--
-- KEYS   1 lock, 2 mark of the owner, 3 token counter, 4 record
-- Reply  {exists, holder, mark, counter exists}, with '' for what there is not

local lock, mark, counter, record = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

local exists, holder = redis.call('EXISTS', lock), ''
local other = string.match(redis.call('GET', record) or '', '^%d+ (.*)$')
if other then
  exists, holder = 1, other
elseif exists == 1 and redis.call('PTTL', lock) < 0 then
  holder = 'a client that writes timestamps'
elseif exists == 1 then
  exists = 0 -- what is left of an owner whose lease is over
end
return {exists, holder, redis.call('GET', mark) or '', redis.call('EXISTS', counter)}
