-- timestamp_release: end the owner's hold and wake the waiters.
--
-- KEYS   1 lock, 2 record
-- ARGV   1 owner, 2 channel, 3... the commands to publish with
-- Reply  1 + receivers   released; -1: the same, but the server refused to publish
--        0               the owner holds nothing
-- Uses   publish, ended

local lock, record, owner, channel = KEYS[1], KEYS[2], ARGV[1], ARGV[2]

local wrote, holder = string.match(redis.call('GET', record) or '', '^(%d+) (.*)$')
if holder ~= owner then
  return 0
end
-- A later time than the owner's is that of an old client which lost the race for
-- it, see timestamp_renew. Another value is somebody else's, and stays.
local stamp = tonumber(redis.call('GET', lock) or '')
local held = stamp and stamp >= tonumber(wrote)
if held then
  redis.call('DEL', lock)
end
redis.call('DEL', record)
if not held then
  return 0
end

return ended(publish(3, channel, '0', '00'))
