-- report_wait: note for people that a client waits for a lock, or no longer does.
--
-- KEYS   1 waiters for the lock: a hash of client and what it says
-- ARGV   1 client, 2 what it says in JSON, an object that is not empty, '' to forget
--        it, 3 ttl in ms, 4 how many clients there is room for
-- Reply  1; 0 if there is no room
-- Uses   millis, stamped

-- forget drops those that did not report for a ttl, by the clock of this server.
local function forget(ttl)
  local now, said = tonumber(millis()), redis.call('HGETALL', KEYS[1])
  for i = 1, #said, 2 do
    local at = tonumber(string.match(said[i + 1], '^{"at":(%d+),') or '0')
    if at < now - ttl or at > now + ttl then
      redis.call('HDEL', KEYS[1], said[i])
    end
  end
end

if ARGV[2] == '' then
  redis.call('HDEL', KEYS[1], ARGV[1])
  return 1
end
redis.call('PEXPIRE', KEYS[1], ARGV[3]) -- before the first field too: a key without an end must not come to be
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
