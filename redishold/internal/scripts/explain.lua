-- explain: what became of a lock that its owner lost. Runs only after a loss.
--
-- KEYS   1 lock, 2 mark of the owner, 3 token counter
-- Reply  {exists, holder, mark, counter exists}, with '' for what there is not

local lock, mark, counter = KEYS[1], KEYS[2], KEYS[3]

local exists, holder = redis.call('EXISTS', lock), ''
if exists == 1 then
  local fields = redis.pcall('HLEN', lock) -- the key may be no hash any more
  if type(fields) == 'number' and fields <= 4 then
    for _, field in ipairs(redis.call('HKEYS', lock)) do
      if field ~= 'mode' and holder == '' then -- a read-write lock has a mode
        holder = field
      end
    end
  end
end
return {exists, holder, redis.call('GET', mark) or '', redis.call('EXISTS', counter)}
