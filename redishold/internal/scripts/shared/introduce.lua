-- introduce: say in the answer of an acquire that is busy the holder of the lock, so
-- that nobody needs another round trip for that.
--
-- The registration of the holder is not among KEYS: nobody knows its name before. So
-- only a single server is asked. Where it may not be read nothing is said.
--
-- Takes  the answer, what registrations begin with, '' or nil if nobody asks
-- Reply  the answer; of a busy one with one element more: {registration, '' if there
--        is none, the server's time in ms}
-- Uses   millis

local function introduce(answer, begin)
  if not begin or begin == '' or type(answer) ~= 'table' or answer[1] ~= 0 or #answer[3] > 200 then
    return answer
  end
  local field = string.match(answer[3], '^(.+):write$') or answer[3]
  local client = string.match(field, '^(.+):')
  local said = client and redis.pcall('GET', begin .. client)
  if said == false or type(said) == 'string' then
    answer[#answer + 1] = {said or '', millis()}
  end
  return answer
end
