-- each: call a function for several locks. If the server refuses a command for one lock,
-- the function is still called for the others.
--
-- Takes  number of locks, function of the index of a lock
-- Reply  for each lock the result of the function; {-3, error} if the server refused a command,
--        where the error begins with a code. If all results are the same number, only that
--        number: a client reads it faster than a list

local function each(count, body)
  local replies, same = {}, true
  for i = 1, count do
    local ran, reply = pcall(body, i)
    if not ran then
      local text = tostring(type(reply) == 'table' and reply.err or reply)
      if not text:find('^%u+ ') then -- the error is not from a command, or is from Redis 6.2, which puts the line number first
        text = 'ERR ' .. text
      end
      reply = {-3, text}
    end
    replies[i] = reply
    same = same and reply == replies[1]
  end
  return same and type(replies[1]) == 'number' and replies[1] or replies
end
