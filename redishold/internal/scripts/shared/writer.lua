-- writer: the writer that holds a read-write lock.
--
-- Takes  the lock, which is in write mode
-- Reply  the reply of an acquire: {0, pttl, field of the writer, holds}; field '' if it is
--        unknown

local function writer(lock)
  local pttl = redis.call('PTTL', lock)
  local fields = redis.call('HLEN', lock) <= 64 and redis.call('HGETALL', lock) or {}
  for i = 1, #fields, 2 do
    if string.find(fields[i] .. ':', ':write:', 1, true) then
      return {0, pttl, fields[i], fields[i + 1]}
    end
  end
  return {0, pttl, '', '0'}
end
