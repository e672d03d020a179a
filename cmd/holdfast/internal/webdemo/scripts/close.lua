-- Closes the shop and deletes it.
--
-- KEYS  1 the stock  2 the list of sales
--
-- Reply {stock as text, number of sales}
local stock = redis.call('GET', KEYS[1])
local sales = redis.call('LLEN', KEYS[2])
redis.call('DEL', KEYS[1], KEYS[2])
return {stock or '0', sales}
