-- list_waits: list the clients that report that they wait for a lock. It writes nothing.
--
-- KEYS   1 waiters for the lock: a hash of client and report
-- ARGV   1 approximate number of clients to list
-- Reply  {server time in ms, client, its report in JSON, ...}
-- Uses   millis

local reports = redis.pcall('HSCAN', KEYS[1], '0', 'COUNT', ARGV[1])
local found = {millis()}
for i, text in ipairs(reports.err and {} or reports[2]) do
  found[i + 1] = text
end
return found
