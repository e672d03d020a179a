-- list_plain: read the locks of some names in the layout Plain. It writes nothing.
--
-- KEYS   1... locks
-- ARGV   1 maximal number of bytes of a value, 2 the subcommand of PUBSUB that counts
--        listeners, '' for none; then the channel of each name
-- Reply  {{state, pttl, value, listeners}, ...}, one for each name; -1 listeners:
--        unknown. The state is 'free', 'string', or 'other' for another type or a longer
--        string. pttl -1: the key never expires
-- Uses   allow_wrongtype, listeners

local limit, counting = tonumber(ARGV[1]), ARGV[2]

local found = {}
for i, lock in ipairs(KEYS) do
  local value = allow_wrongtype(redis.pcall('GETRANGE', lock, '0', ARGV[1])) -- reads one byte more than the limit
  if type(value) ~= 'string' or #value > limit then
    found[i] = {'other', -1, '', -1}
  else
    local pttl = redis.call('PTTL', lock)
    found[i] = {pttl == -2 and 'free' or 'string', pttl, value, -1}
  end
end
listeners(counting, {unpack(ARGV, 3)}, function(i, count) found[i][4] = count end)
return found
