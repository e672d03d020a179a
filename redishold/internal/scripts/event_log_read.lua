-- event_log_read: read entries of the event log. It writes nothing.
--
-- KEYS   1 event log: a stream, 2 its rare entries: a second stream
-- ARGV   1 id after which to read, '' to read by time; 2 how many ms back to read by time,
--        3 maximal number of entries of each stream
-- Reply  {server time in ms, {id, at, who, what, ...}, {id, at, who, what, ...}}, each
--        list in order; '' for a missing field
-- Uses   millis

local now = millis()
-- Entries after `last` are left out, because the clock was ahead when they were added.
local first, last = '(' .. ARGV[1], string.format('%.0f', tonumber(now) + 60000)
if ARGV[1] == '' or tonumber(string.match(ARGV[1], '^%d+')) > tonumber(last) then
  first = string.format('%.0f', math.max(0, tonumber(now) - tonumber(ARGV[2])))
end

local function read(key)
  local found = {}
  for _, entry in ipairs(redis.call('XRANGE', key, first, last, 'COUNT', ARGV[3])) do
    local fields, values = entry[2], {at = '', who = '', what = ''}
    for i = 1, #fields, 2 do
      values[fields[i]] = fields[i + 1]
    end
    found[#found + 1] = entry[1]
    found[#found + 1] = values.at
    found[#found + 1] = values.who
    found[#found + 1] = values.what
  end
  return found
end

return {now, read(KEYS[1]), read(KEYS[2])}
