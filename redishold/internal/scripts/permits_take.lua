-- permits_take: take permits of a plain semaphore, if enough are free.
--
-- The layout does not name the holders, so the idempotency key records that the call was done.
-- Before that, the script writes an empty value, which only proves that the user may write the
-- key.
--
-- KEYS   1 counter of free permits, 2 idempotency key of the call
-- ARGV   1 number of permits, 2 ttl of the idempotency key in ms, 3 '1' if an earlier
--        attempt of the call may still arrive, which must get the same reply
-- Reply  {1, 0}      taken, now or by an earlier attempt
--        {0, free}   not enough permits are free
--        {-1, 0}     the key is no counter
-- Uses   set_expiring

local counter, call_key, wanted, ttl = KEYS[1], KEYS[2], ARGV[1], ARGV[2]

local done = redis.call('GET', call_key)
if done and done ~= '' then
  return {tonumber(done), 0}
end
local value = redis.call('GET', counter) or '0'
if not string.match(value, '^-?%d+$') then
  return {-1, 0}
end
if tonumber(value) < tonumber(wanted) then
  if ARGV[3] == '1' then
    set_expiring(call_key, '0', ttl)
  end
  return {0, tonumber(value)}
end
redis.call('SET', call_key, '', 'PX', ttl) -- a full server refuses here, before anything was taken
redis.call('INCRBY', counter, '-' .. wanted)
redis.call('SET', call_key, '1', 'PX', ttl)
return {1, 0}
