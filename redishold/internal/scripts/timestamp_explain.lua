-- timestamp_explain: find out why an owner lost a timestamp lock. Called only after a loss.
--
-- KEYS   1 lock, 2 tombstone of the owner, 3 token counter, 4 record
-- Reply  {lock exists, holder, tombstone, counter exists}; '' for a holder or a tombstone
--        that does not exist

local lock, tombstone, counter, record = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

local exists, holder = redis.call('EXISTS', lock), ''
local other = string.match(redis.call('GET', record) or '', '^%d+ (.*)$')
if other then
  exists, holder = 1, other
elseif exists == 1 and redis.call('PTTL', lock) < 0 then
  holder = 'a client that writes timestamps'
elseif exists == 1 then
  exists = 0 -- the key of an owner whose lease has ended
end
return {exists, holder, redis.call('GET', tombstone) or '', redis.call('EXISTS', counter)}
