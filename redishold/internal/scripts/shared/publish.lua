-- publish: publish a message with each publish command in ARGV.
--
-- If the server refuses to publish, the script does not fail, because its other writes are
-- done. So publish uses pcall.
--
-- ARGV   publish commands, from the given index to the last argument
-- Takes  index of the first publish command, channel, message; another message for all
--        commands except the last one, nil if all commands have the same message
-- Reply  number of receivers; -1 if the server refused to publish. A client may listen on
--        the classic and on the sharded channel, so the larger number of two commands counts

local function publish(from, channel, message, earlier_message)
  local receivers = 0
  for i = from, #ARGV do
    local received = redis.pcall(ARGV[i], channel, i < #ARGV and earlier_message or message)
    if type(received) ~= 'number' or receivers < 0 then
      receivers = -1
    else
      receivers = math.max(receivers, received)
    end
  end
  return receivers
end
