-- plain_explain: find out why an owner lost a plain lock. Called only after a loss.
--
-- KEYS   1 lock, 2 tombstone of the owner, 3 token counter
-- Reply  {lock exists, value, tombstone, counter exists}; '' for a value or a tombstone
--        that does not exist

local lock, tombstone, counter = KEYS[1], KEYS[2], KEYS[3]

local exists, value = redis.call('EXISTS', lock), redis.pcall('GET', lock)
if type(value) ~= 'string' then
  value = '' -- the key does not exist, or is not a string any more
end
return {exists, value, redis.call('GET', tombstone) or '', redis.call('EXISTS', counter)}
