-- event_log_read: what clients did. It writes nothing.
--
-- KEYS   1 event log: a stream, 2 what of it is rare, once more
-- ARGV   1 the id after which, '' for the last so many ms; 2 how many ms, 3 how many
--        entries of each at most
-- Reply  {the server's time in ms, {id, at, who, what, ...}, {id, at, who, what, ...}},
--        each in order; '' for a field that is not there
-- Uses   millis

local now = millis()
local first, last = '(' .. ARGV[1], string.format('%.0f', tonumber(now) + 60000) -- what is later is unknown
if ARGV[1] == '' or tonumber(string.match(ARGV[1], '^%d+')) > tonumber(last) then
  first = string.format('%.0f', math.max(0, tonumber(now) - tonumber(ARGV[2])))
end

local function read(key)
  local found = {}
  for _, entry in ipairs(redis.call('XRANGE', key, first, last, 'COUNT', ARGV[3])) do
    local fields, said = entry[2], {at = '', who = '', what = ''}
    for i = 1, #fields, 2 do
      said[fields[i]] = fields[i + 1]
    end
    found[#found + 1] = entry[1]
    found[#found + 1] = said.at
    found[#found + 1] = said.who
    found[#found + 1] = said.what
  end
  return found
end

return {now, read(KEYS[1]), read(KEYS[2])}
