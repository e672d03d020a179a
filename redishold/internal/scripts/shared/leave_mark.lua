-- leave_mark: leave a mark for an owner or a call. A full server refuses SET, but not after a
-- write; PEXPIRE is one, also of a mark that is not there.
--
-- Takes  the key of the mark, what it says, its ttl in ms
-- Reply  nothing

local function leave_mark(mark, text, ttl)
  redis.call('PEXPIRE', mark, ttl)
  redis.call('SET', mark, text, 'PX', ttl)
end
