-- Opens the shop.
--
-- KEYS  1 the stock  2 the list of sales
-- ARGV  1 how many items there are  2 how long to keep the keys, in ms
--
-- Reply OK
redis.call('DEL', KEYS[2])
return redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
