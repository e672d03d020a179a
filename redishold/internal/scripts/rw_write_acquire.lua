-- rw_write_acquire: give the write side of a read-write lock to an owner, unless another
-- owner holds either side.
--
-- The field of a dead reader stays in the hash as long as there are other readers. This
-- script removes fields without a live timeout key, so that a writer gets the lock after
-- the last live reader has released it.
--
-- The names of the timeout keys are not known before the script has read the lock. So, if there
-- are readers, the first call replies with them, and the caller calls the script again, with
-- their timeout keys. In that second call, a reader without keys has come since, and counts as
-- live.
--
-- KEYS   1 lock, 2 tombstone of the owner, 3 token counter, 4... timeout keys of readers
-- ARGV   1 owner, 2 ttl in ms, 3 hold count, 4 number of tokens to reserve,
--        5 prefix of timeout keys, 6 '1' if the script must reply with the readers whose timeout
--        keys are not among KEYS
-- Reply  first token                granted, now or by an earlier call
--        {0, pttl, holder, holds}   busy; holder is the field of the writer or of a
--                                   reader, '' if unknown; pttl is the remaining
--                                   lease of the writer, or the longest remaining lease
--                                   of a reader
--        {3, {field, holds, ...}}   these readers hold the lock. The script has changed nothing
--        {-1}                       the key is another kind of lock
--        {-2, tombstone}            the claim was abandoned or forced
-- Uses   draw, limit, longest, rw_mode, scan_readers, writer
--
-- It leaves no key without a TTL, even if the server refuses a command.

local lock, tombstone, counter = KEYS[1], KEYS[2], KEYS[3]
local field, ttl, holds, tokens, prefix = ARGV[1] .. ':write', ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]

local mode, refusal = rw_mode(lock, tombstone)
if refusal then
  return refusal
end

-- grant gives the lock to the owner.
local function grant()
  local first = draw(counter, tokens) -- a full server refuses here, before anything is changed
  if mode then
    redis.call('DEL', lock) -- the lock has only dead readers
  end
  redis.call('HSET', lock, 'mode', 'write', field, holds)
  limit(lock, ttl)
  return first
end

if not mode then
  return grant()
end

if mode == 'write' and redis.call('HGET', lock, field) then
  -- PEXPIRE first: a full server refuses neither PEXPIRE nor the writes after it.
  redis.call('PEXPIRE', lock, longest(lock, ttl))
  redis.call('HSET', lock, field, holds)
  return draw(counter, tokens)
end

if mode == 'write' then
  return writer(lock)
end

local most, holder, dead, unknown, more = scan_readers(lock, prefix, 4)
if #unknown > 0 and ARGV[6] == '1' then
  return {3, unknown}
end
if most < 0 and #unknown == 0 and not more then
  return grant()
end
if #dead > 0 then
  redis.call('HDEL', lock, unpack(dead))
end
if #unknown > 0 then
  most = math.max(most, redis.call('PTTL', lock)) -- no reader has a longer lease than the lock
end
if most < 0 or #dead > 0 and holder[1] == '' then
  most = 100 -- no reader is known to be live: retry soon, to scan the remaining readers
end
return {0, most, holder[1], holder[2]}
