-- count_replicas: count the connected replicas of the server that has the lock.
--
-- KEYS   1 lock; in a cluster it selects the server
-- Reply  number of replicas

local info = redis.call('INFO', 'replication')
return tonumber(string.match(info, 'connected_slaves:(%d+)')) or 0
