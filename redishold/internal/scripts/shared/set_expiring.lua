-- set_expiring: set a key with a TTL, also on a full server. Such a server refuses SET, but not
-- after another write of the same script. PEXPIRE counts as a write, even if the key does not
-- exist.
--
-- Takes  key, value, ttl in ms
-- Reply  nothing

local function set_expiring(key, value, ttl)
  redis.call('PEXPIRE', key, ttl)
  redis.call('SET', key, value, 'PX', ttl)
end
