-- count_replicas: how many replicas the lock's server has.
--
-- KEYS   1 lock, so that a cluster asks the right server
-- Reply  their number

local info = redis.call('INFO', 'replication')
return tonumber(string.match(info, 'connected_slaves:(%d+)')) or 0
