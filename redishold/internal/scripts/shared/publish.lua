-- publish: send a message with each of the commands that the script was given.
--
-- It is sent with pcall: a refused message must not hide what was done.
--
-- ARGV   the commands, from the one of the given number to the last
-- Takes  the number of the first command, the channel, the message; what to send in
--        its place with all commands but the last, nil for the same
-- Reply  how many received it; -1 if the server refused to publish. Clients listen on
--        several channels, so that of two commands the larger number counts

local function publish(from, channel, message, before)
  local receivers = 0
  for i = from, #ARGV do
    local heard = redis.pcall(ARGV[i], channel, i < #ARGV and before or message)
    if type(heard) ~= 'number' or receivers < 0 then
      receivers = -1
    else
      receivers = math.max(receivers, heard)
    end
  end
  return receivers
end
