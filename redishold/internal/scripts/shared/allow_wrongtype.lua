-- allow_wrongtype: accept the error WRONGTYPE of a command, because the key may have any type.
--
-- Takes  result of a pcall
-- Reply  the same result; any other error is raised

local function allow_wrongtype(reply)
  if type(reply) == 'table' and reply.err and not string.find(reply.err, 'WRONGTYPE', 1, true) then
    error(reply.err)
  end
  return reply
end
