-- explain: find out why an owner lost the lock. Called only after a loss.
--
-- KEYS   1 lock, 2 tombstone of the owner, 3 token counter
-- Reply  {lock exists, holder, tombstone, counter exists}; '' for a holder or a tombstone
--        that does not exist

local lock, tombstone, counter = KEYS[1], KEYS[2], KEYS[3]

local exists, holder = redis.call('EXISTS', lock), ''
if exists == 1 then
  local fields = redis.pcall('HLEN', lock) -- the reply is an error if the key is not a hash any more
  if type(fields) == 'number' and fields <= 4 then
    for _, field in ipairs(redis.call('HKEYS', lock)) do
      if field ~= 'mode' and holder == '' then -- a read-write lock has a mode
        holder = field
      end
    end
  end
end
return {exists, holder, redis.call('GET', tombstone) or '', redis.call('EXISTS', counter)}
