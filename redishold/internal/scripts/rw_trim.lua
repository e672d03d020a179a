-- rw_trim: shorten the TTL of a read-write lock to the longest lease of its readers, and remove
-- readers without a lease. If no live reader is left, delete the lock and wake the waiters.
--
-- The caller has released a hold with rw_release, which counts the remaining readers as live. If
-- readers have come since, the script leaves the TTL as it is. If the lock is not held by
-- readers, the script changes nothing.
--
-- KEYS   1 lock, 2... timeout keys of the readers
-- ARGV   1 prefix of timeout keys, 2 channel, 3... publish commands
-- Reply  1 + receivers   the lock had no live reader, and is free; -1: the same, but the server
--                        refused to publish
--        0               the lock is not free, or was free already
-- Uses   scan_readers, publish, ended

local lock, prefix, channel = KEYS[1], ARGV[1], ARGV[2]

if redis.call('HGET', lock, 'mode') ~= 'read' then
  return 0
end

local longest, _, dead, unknown, more = scan_readers(lock, prefix, 2)
local complete = #unknown == 0 and not more
if complete and longest < 0 then
  redis.call('DEL', lock)
  return ended(publish(3, channel, '0'))
end
if #dead > 0 then
  redis.call('HDEL', lock, unpack(dead))
end
if complete then
  redis.call('PEXPIRE', lock, string.format('%.0f', math.max(longest, 1)))
end
return 0
