-- history_add: note for people what a client did.
--
-- KEYS   1 history: a stream
-- ARGV   1 how many entries it keeps, about; 2 ttl in ms, 3 who the client is, 4... what
--        happened, both in JSON
-- Reply  how many were added

for i = 4, #ARGV do
  redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', 'who', ARGV[3], 'what', ARGV[i])
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return #ARGV - 3
