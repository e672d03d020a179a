-- opened: what an acquire of a read-write lock reads first.
--
-- Takes  lock, mark of the owner
-- Reply  the lock's mode, false if it is free; and the answer of an acquire that may not
--        go on, else nil

local function opened(lock, mark)
  if redis.call('EXISTS', lock, mark) == 0 then
    return false
  end
  local gone = redis.call('GET', mark)
  if gone then
    return false, {-2, gone}
  end
  local mode = redis.call('HGET', lock, 'mode')
  return mode, mode ~= 'read' and mode ~= 'write' and {-1} or nil
end
