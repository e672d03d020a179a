-- permits_take: take permits of a plain semaphore, if there are enough.
--
-- A mark per call remembers that it was done, for the layout names no holder. An
-- empty mark proves the right to write it, and says nothing.
--
-- KEYS   1 counter of free permits, 2 mark of the call
-- ARGV   1 how many, 2 ttl of the mark in ms, 3 '1' if an earlier attempt of
--        the call may still arrive: it must find the same answer
-- Reply  {1, 0}      taken, now or by an earlier attempt
--        {0, free}   not enough
--        {-1, 0}     the key is something else
-- Uses   leave_mark

local counter, mark, wanted, ttl = KEYS[1], KEYS[2], ARGV[1], ARGV[2]

local done = redis.call('GET', mark)
if done and done ~= '' then
  return {tonumber(done), 0}
end
local value = redis.call('GET', counter) or '0'
if not string.match(value, '^-?%d+$') then
  return {-1, 0}
end
if tonumber(value) < tonumber(wanted) then
  if ARGV[3] == '1' then
    leave_mark(mark, '0', ttl)
  end
  return {0, tonumber(value)}
end
redis.call('SET', mark, '', 'PX', ttl) -- a full server refuses here, before anything was taken
redis.call('INCRBY', counter, '-' .. wanted)
redis.call('SET', mark, '1', 'PX', ttl)
return {1, 0}
