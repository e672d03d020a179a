-- limit: give a key that was just written its TTL.
--
-- Where that is refused, by a right that was taken away, the key must not stay.
-- DEL may be refused as well; SET is not, for the script has drawn a token.
--
-- Takes  the key, and the TTL in ms
-- Reply  nothing

local function limit(key, ttl)
  if redis.pcall('PEXPIRE', key, ttl) ~= 1 then
    redis.call('SET', key, '', 'PXAT', '1') -- ends at once
    redis.call('PEXPIRE', key, '1') -- refused again: it brings the server's words
    error('ttl ' .. ttl .. ' is refused')
  end
end
