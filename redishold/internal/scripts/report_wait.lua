-- report_wait: record for operators that a client waits for a lock, or does not wait any
-- more.
--
-- KEYS   1 waiters for the lock: a hash of client and report
-- ARGV   1 client, 2 report: an object in JSON that is not empty, '' to remove the client,
--        3 ttl in ms, 4 maximal number of clients
-- Reply  1; 0 if the hash already has the maximal number of clients
-- Uses   millis, stamped

-- forget removes clients whose last report is more than `ttl` ms ago, by the clock of the
-- server.
local function forget(ttl)
  local now, reports = tonumber(millis()), redis.call('HGETALL', KEYS[1])
  for i = 1, #reports, 2 do
    local at = tonumber(string.match(reports[i + 1], '^{"at":(%d+),') or '0')
    if at < now - ttl or at > now + ttl then
      redis.call('HDEL', KEYS[1], reports[i])
    end
  end
end

if ARGV[2] == '' then
  redis.call('HDEL', KEYS[1], ARGV[1])
  return 1
end
redis.call('PEXPIRE', KEYS[1], ARGV[3]) -- also before HSET: if the user may not run PEXPIRE, the script leaves no key without a TTL
local most = tonumber(ARGV[4])
if redis.call('HLEN', KEYS[1]) >= most and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  forget(tonumber(ARGV[3]))
  if redis.call('HLEN', KEYS[1]) >= most then
    return 0
  end
end
redis.call('HSET', KEYS[1], ARGV[1], stamped(ARGV[2]))
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
