-- list_plain: what is kept under some names of strings. It writes nothing.
--
-- KEYS   1... locks
-- ARGV   1 how many bytes of a value to show, 2 the subcommand of PUBSUB that
--        counts who listens, '' for none; then of each name its channel
-- Reply  {{state, pttl, value, listeners}, ...}, one for each name; -1 listeners:
--        unknown. The state is 'free', 'string' or 'other', which is no string or
--        one that is longer. pttl -1: it never expires
-- Uses   looked, listeners

local limit, counting = tonumber(ARGV[1]), ARGV[2]

local found = {}
for i, lock in ipairs(KEYS) do
  local value = looked(redis.pcall('GETRANGE', lock, '0', ARGV[1])) -- one byte more than is shown
  if type(value) ~= 'string' or #value > limit then
    found[i] = {'other', -1, '', -1}
  else
    local pttl = redis.call('PTTL', lock)
    found[i] = {pttl == -2 and 'free' or 'string', pttl, value, -1}
  end
end
listeners(counting, {unpack(ARGV, 3)}, function(i, count) found[i][4] = count end)
return found
