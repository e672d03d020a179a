-- history_add: note for people what a client did.
--
-- KEYS   1 history: a stream, 2 what of it is rare, once more
-- ARGV   1 how many entries the first keeps, about, 2 the second; 3 ttl in ms, 4 who the
--        client is, in JSON, 5... what happened, in JSON behind a '!' if it is rare, else
--        a '.'
-- Reply  how many were added

for i = 5, #ARGV do
  local what = string.sub(ARGV[i], 2)
  local id = redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', 'who', ARGV[4], 'what', what)
  if string.sub(ARGV[i], 1, 1) == '!' then
    -- It has the same id, unless the first was deleted and the clock set back.
    redis.pcall('XADD', KEYS[2], 'MAXLEN', '~', ARGV[2], id, 'who', ARGV[4], 'what', what)
  end
end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return #ARGV - 4
