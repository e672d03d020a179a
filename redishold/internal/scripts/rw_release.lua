-- rw_release: end one hold of a read-write lock, of either side, and wake the waiters that
-- may get the lock now.
--
-- The script does not read the leases of other readers, because the names of their timeout keys
-- are not known before it reads the lock. These readers count as live, and the TTL of the lock
-- stays. If there are such readers, the reply names them, and the caller runs rw_trim with their
-- timeout keys.
--
-- With a tombstone, the script is also for a claim whose acquire may still arrive, and for a
-- force unlock of the hold of another client.
--
-- KEYS   1 lock, then the timeout keys of the hold of a reader; last the tombstone of the
--        owner, if one must be set
-- ARGV   1 field of the hold; in write mode, if the lock does not have that field, the script
--          uses ARGV 1 with ':write' at the end,
--        2 prefix of timeout keys, 3 channel,
--        4 the expected hold count, or '' for any; the script changes nothing if the hold
--          has another count,
--        5 text of the tombstone, '' for none, 6 ttl of the tombstone in ms,
--        7... publish commands
-- Reply  1 + receivers   released; -1: the same, but the server refused to publish
--        0               the hold does not exist
--        {1 + receivers or -1, field, hold count, ...}
--                        released, and these readers remain
-- Uses   scan_readers, publish, ended, set_expiring

local lock, field, prefix, channel = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local tombstone = ARGV[5] ~= '' and KEYS[#KEYS]

-- remove removes the hold. It returns a list of the messages to publish, and {field, hold count,
-- ...} of the readers that remain.
local function remove(mode, writes)
  if mode == 'write' and not writes then
    redis.call('HDEL', lock, field) -- the write hold stays, with its TTL
    return {}, {}
  end
  local _, _, dead, others, more = scan_readers(lock, prefix, #KEYS + 1, field)
  if #others == 0 and not more then
    redis.call('DEL', lock)
    -- '1' wakes all waiters of a Java program, except a thread that is about to sleep.
    -- Redisson keeps '0' for that thread.
    return writes and {'1', '0'} or {'0'}, {}
  end
  local pttl = redis.call('PTTL', lock)
  if writes or pttl < 0 then
    -- PEXPIRE first: a full server refuses neither PEXPIRE nor the writes after it. If the lock
    -- has no TTL, it gets the default of Redisson.
    redis.call('PEXPIRE', lock, string.format('%.0f', pttl < 0 and 30000 or math.max(pttl, 1)))
  end
  if writes then
    redis.call('HSET', lock, 'mode', 'read')
  end
  dead[#dead + 1] = field
  redis.call('HDEL', lock, unpack(dead))
  return writes and {'1'} or {}, others
end

local mode = redis.call('HGET', lock, 'mode')
local held = mode and redis.call('HGET', lock, field)
if mode == 'write' and not held then
  field = field .. ':write'
  held = redis.call('HGET', lock, field)
end
local writes = mode == 'write' and string.find(field .. ':', ':write:', 1, true)

if ARGV[4] ~= '' and ARGV[4] ~= held then
  return 0
end

local payloads, others = {}, {}
if held then
  payloads, others = remove(mode, writes)
  for i = 2, writes and 0 or #KEYS - (tombstone and 1 or 0) do
    redis.pcall('DEL', KEYS[i]) -- may fail: without the field, a timeout key has no effect, and it expires
  end
end

if tombstone then
  set_expiring(tombstone, ARGV[5], ARGV[6])
end
if not held then
  return 0
end

local receivers = 0
for _, payload in ipairs(payloads) do
  local received = publish(7, channel, payload)
  receivers = math.min(receivers, received) < 0 and -1 or receivers + received
end
local code = ended(receivers)
return #others == 0 and code or {code, unpack(others)}
