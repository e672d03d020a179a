-- Says how long keys are kept.
--
-- KEYS  1... the keys
-- ARGV  1 ms
--
-- Reply how many of them are there
local there = 0
for _, key in ipairs(KEYS) do
  there = there + redis.call('PEXPIRE', key, ARGV[1])
end
return there
