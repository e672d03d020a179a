-- each: do the same for several locks. What the server refuses of one of them
-- neither keeps the others from it nor hides what was done for them.
--
-- Takes  how many there are, and what to do for the one of a given number
-- Reply  for each what that returned; {-3, words} where the server refused it, with
--        the words that begin with a code

local function each(count, body)
  local replies = {}
  for i = 1, count do
    local ran, reply = pcall(body, i)
    if not ran then
      local words = tostring(type(reply) == 'table' and reply.err or reply)
      if not words:find('^%u+ ') then -- not from a command, or Redis 6.2 put the line number first
        words = 'ERR ' .. words
      end
      reply = {-3, words}
    end
    replies[i] = reply
  end
  return replies
end
