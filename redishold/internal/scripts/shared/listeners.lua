-- listeners: count the listeners on channels. If the server refuses to count, listeners does
-- not call the given function.
--
-- Takes  the subcommand of PUBSUB that counts, '' for none; the channels; a function that
--        is called with the index of each channel and its number of listeners
-- Reply  nothing

local function listeners(counting, channels, note)
  if counting == '' or #channels == 0 then
    return
  end
  local counts = redis.pcall('PUBSUB', counting, unpack(channels))
  for i = 1, counts.err and 0 or #channels do
    note(i, counts[2 * i])
  end
end
