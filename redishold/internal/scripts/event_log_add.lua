-- event_log_add: note for people what a client did.
--
-- KEYS   1 event log: a stream, 2 what of it is rare, once more
-- ARGV   1 how many entries the first keeps, about, 2 the second; 3 ttl in ms, 4 who the
--        client is, in JSON, 5... what happened, in JSON behind a '!' if it is rare, else
--        a '.'
-- Reply  how many were added
-- Uses   millis

local now = millis()

local function add(call, key, most, id, what)
  return call('XADD', key, 'MAXLEN', '~', most, id, 'at', now, 'who', ARGV[4], 'what', what)
end

for i = 5, #ARGV do
  local what = string.sub(ARGV[i], 2)
  local id = add(redis.call, KEYS[1], ARGV[1], '*', what)
  if tonumber(string.match(id, '^%d+')) > tonumber(now) + 60000 then
    -- Ids never fall: the clock was ahead once. Readers go by the clock, and would see
    -- nothing until it is there again.
    redis.call('DEL', KEYS[1], KEYS[2])
    id = add(redis.call, KEYS[1], ARGV[1], '*', what)
  end
  if string.sub(ARGV[i], 1, 1) == '!' then
    local same = add(redis.pcall, KEYS[2], ARGV[2], id, what)
    if type(same) ~= 'string' then -- it has later ids: the first stream alone was deleted
      redis.call('DEL', KEYS[2])
      add(redis.call, KEYS[2], ARGV[2], id, what)
    end
  end
end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return #ARGV - 4
