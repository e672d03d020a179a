-- Writes the new stock, as the buyer computed it, and the sale.
--
-- KEYS  1 the stock  2 the list of sales
-- ARGV  1 the new stock  2 the buyer's fencing token, 0 without a lock
--       3 how long to keep the keys, in ms
--
-- Reply how many sales there were
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[3])
local sales = redis.call('RPUSH', KEYS[2], ARGV[2])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return sales
