-- release: end the hold of the owner and wake the waiters.
--
-- The script has only one key, so that a migrating slot of a cluster does not block it.
--
-- KEYS   1 lock
-- ARGV   1 owner, 2 channel, 3... publish commands
-- Reply  1 + receivers   released; -1: the same, but the server refused to publish
--        0               the owner holds nothing
-- Uses   publish, ended

local lock, owner, channel = KEYS[1], ARGV[1], ARGV[2]

if redis.call('HDEL', lock, owner) == 0 then -- Redis deletes a hash with its last field
  return 0
end
if #ARGV <= 3 then -- the usual case: at most one command publishes, which is faster without the function publish
  local receivers = ARGV[3] and redis.pcall(ARGV[3], channel, '0') or 0
  return type(receivers) == 'number' and receivers + 1 or -1
end

return ended(publish(3, channel, '0', '00'))
