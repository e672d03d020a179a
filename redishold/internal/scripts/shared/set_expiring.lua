-- set_expiring: set a key with a TTL, also on a full server: that refuses SET, but not after
-- a write in the same script. PEXPIRE counts as a write, also for a key that does not exist.
--
-- Takes  key, value, ttl in ms
-- Reply  nothing

local function set_expiring(key, value, ttl)
  redis.call('PEXPIRE', key, ttl)
  redis.call('SET', key, value, 'PX', ttl)
end
