-- publish: send a message with each of the commands that the script was given.
--
-- It comes last, and with pcall: a refused message must not hide what was done.
--
-- ARGV   the commands, from the one of the given number to the last
-- Takes  the number of the first command, the channel, the message
-- Reply  how many received it; -1 if the server refused to publish

local function publish(from, channel, message)
  local receivers = 0
  for i = from, #ARGV do
    local heard = redis.pcall(ARGV[i], channel, message)
    if type(heard) ~= 'number' or receivers < 0 then
      receivers = -1
    else
      receivers = receivers + heard
    end
  end
  return receivers
end
