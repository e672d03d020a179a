-- Reads what is in stock.
--
-- KEYS  1 the stock
--
-- Reply the number as text; nil if there is no shop
return redis.call('GET', KEYS[1])
