-- limit: set the TTL of a key that the script has just written.
--
-- If the server refuses PEXPIRE, because the user has lost the permission, the key must not
-- stay without a TTL. The server may refuse DEL, too. So limit ends the key with SET, which the
-- server accepts: the script has just drawn a token with SET.
--
-- Takes  the key, and the TTL in ms
-- Reply  nothing

local function limit(key, ttl)
  if redis.pcall('PEXPIRE', key, ttl) ~= 1 then
    redis.call('SET', key, '', 'PXAT', '1') -- expires at once
    redis.call('PEXPIRE', key, '1') -- if the server refuses again, this raises its error
    error('ttl ' .. ttl .. ' is refused')
  end
end
