-- rw_mode: the mode of a read-write lock, for an acquire.
--
-- Takes  lock, tombstone of the owner
-- Reply  'read' or 'write', false if the lock is free; and the reply of the acquire if it
--        is refused in any mode, otherwise nil

local function rw_mode(lock, tombstone)
  if redis.call('EXISTS', lock, tombstone) == 0 then
    return false
  end
  local reason = redis.call('GET', tombstone)
  if reason then
    return false, {-2, reason}
  end
  local mode = redis.call('HGET', lock, 'mode')
  return mode, mode ~= 'read' and mode ~= 'write' and {-1} or nil
end
