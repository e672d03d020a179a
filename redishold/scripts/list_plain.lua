-- list_plain: what is kept under some names of strings. It writes nothing.
--
-- KEYS   1... locks
-- ARGV   1 how many bytes of a value to show, 2 the subcommand of PUBSUB that
--        counts who listens, '' for none; then of each name its channel
-- Reply  {{state, pttl, value, listeners}, ...}, one for each name; -1 listeners:
--        unknown. The state is 'free', 'string' or 'other', which is no string or
--        one that is longer. pttl -1: it never expires

local limit, counting = tonumber(ARGV[1]), ARGV[2]

local found = {}
for i, lock in ipairs(KEYS) do
  local value = redis.pcall('GETRANGE', lock, '0', ARGV[1]) -- one byte more than is shown
  if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then
    error(value.err)
  end
  if type(value) ~= 'string' or #value > limit then
    found[i] = {'other', -1, '', -1}
  else
    local pttl = redis.call('PTTL', lock)
    found[i] = {pttl == -2 and 'free' or 'string', pttl, value, -1}
  end
end
if counting ~= '' then
  local heard = redis.pcall('PUBSUB', counting, unpack(ARGV, 3))
  for i = 1, heard.err and 0 or #found do
    found[i][4] = heard[2 * i]
  end
end
return found
