-- history_read: what clients did. It writes nothing.
--
-- KEYS   1 history: a stream
-- ARGV   1 the first id wanted, '' for the first of the last so many ms; 2 how many
--        ms, 3 how many entries at most
-- Reply  {the server's time in ms, id, who, what, ...}, in order; '' for a field that
--        is not there
-- Uses   millis

local now, first = millis(), ARGV[1]
if first == '' then
  first = string.format('%.0f', math.max(0, tonumber(now) - tonumber(ARGV[2])))
end
local found = {now}
for _, entry in ipairs(redis.call('XRANGE', KEYS[1], first, '+', 'COUNT', ARGV[3])) do
  local fields, said = entry[2], {who = '', what = ''}
  for i = 1, #fields, 2 do
    said[fields[i]] = fields[i + 1]
  end
  found[#found + 1] = entry[1]
  found[#found + 1] = said.who
  found[#found + 1] = said.what
end
return found
