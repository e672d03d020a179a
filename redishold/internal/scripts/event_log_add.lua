-- event_log_add: add entries of a client to the event log.
--
-- KEYS   1 event log: a stream, 2 its rare entries: a second stream
-- ARGV   1 approximate number of entries that the first stream keeps, 2 the same for the
--        second, 3 ttl in ms, 4 description of the client in JSON, 5... entries in JSON,
--        each after a '!' if it is rare, otherwise after a '.'
-- Reply  number of added entries
-- Uses   millis

local now = millis()

local function add(call, key, limit, id, entry)
  return call('XADD', key, 'MAXLEN', '~', limit, id, 'at', now, 'who', ARGV[4], 'what', entry)
end

for i = 5, #ARGV do
  local entry = string.sub(ARGV[i], 2)
  local id = add(redis.call, KEYS[1], ARGV[1], '*', entry)
  if tonumber(string.match(id, '^%d+')) > tonumber(now) + 60000 then
    -- The id is from the future: the ids of a stream never decrease, so an earlier entry was
    -- added while the clock of the server was ahead. Readers select by time, and would find no
    -- entry until the clock reaches these ids.
    redis.call('DEL', KEYS[1], KEYS[2])
    id = add(redis.call, KEYS[1], ARGV[1], '*', entry)
  end
  if string.sub(ARGV[i], 1, 1) == '!' then
    local added = add(redis.pcall, KEYS[2], ARGV[2], id, entry)
    if type(added) ~= 'string' then -- KEYS[2] has later ids, because only KEYS[1] was deleted
      redis.call('DEL', KEYS[2])
      add(redis.call, KEYS[2], ARGV[2], id, entry)
    end
  end
end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return #ARGV - 4
