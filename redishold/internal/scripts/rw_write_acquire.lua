-- rw_write_acquire: give the write side of a read-write lock to an owner, unless
-- somebody else holds either side.
--
-- A reader that died leaves its field in the hash for as long as others read. A
-- field without any live timeout key is removed here, so that a writer comes in
-- once the last live reader has left.
--
-- KEYS   1 lock, 2 mark of the owner, 3 token counter
-- ARGV   1 owner, 2 ttl in ms, 3 holds, 4 how many tokens to reserve,
--        5 what timeout keys begin with, 6 what registrations begin with, '' if nobody
--        asks for the holder's
-- Reply  first token                granted, now or by an earlier call
--        {0, pttl, holder, holds}   busy; holder is the field of the writer or of a
--                                   reader, '' if unknown; pttl of the writer, or of
--                                   the reader that stays longest. One element more where
--                                   introduce has something to say
--        {-1}                       the key is another kind of lock
--        {-2, mark}                 the owner was given up or broken
-- Uses   draw, limit, longest, opened, survey, writer, introduce
--
-- Nothing it writes can stay without a TTL, whatever memory or rights forbid.

local lock, mark, counter = KEYS[1], KEYS[2], KEYS[3]
local field, ttl, holds, tokens, prefix = ARGV[1] .. ':write', ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]

local mode, no = opened(lock, mark)
if no then
  return no
end

if mode == 'write' and redis.call('HGET', lock, field) then
  -- PEXPIRE first: a full server does not refuse it, nor what follows it.
  redis.call('PEXPIRE', lock, longest(lock, ttl))
  redis.call('HSET', lock, field, holds)
  return draw(counter, tokens)
end

if mode == 'write' then
  return introduce(writer(lock), ARGV[6])
end

if mode == 'read' then
  local most, holder, dead, more = survey(lock, prefix)
  if most >= 0 or more then
    if #dead > 0 then
      redis.call('HDEL', lock, unpack(dead))
    end
    if most < 0 then
      most = 100 -- soon, to look at the others
    end
    return introduce({0, most, holder[1], holder[2]}, ARGV[6])
  end
end

local first = draw(counter, tokens) -- a full server refuses here, before anything is changed
if mode then
  redis.call('DEL', lock) -- only dead readers
end
redis.call('HSET', lock, 'mode', 'write', field, holds)
limit(lock, ttl)
return first
