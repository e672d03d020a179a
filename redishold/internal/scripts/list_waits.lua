-- list_waits: who says that it waits for a lock. It writes nothing.
--
-- KEYS   1 waiters for the lock: a hash of client and what it says
-- ARGV   1 how many to show, about
-- Reply  {the server's time in ms, client, what it says in JSON, ...}
-- Uses   millis

local said = redis.pcall('HSCAN', KEYS[1], '0', 'COUNT', ARGV[1])
local found = {millis()}
for i, text in ipairs(said.err and {} or said[2]) do
  found[i + 1] = text
end
return found
