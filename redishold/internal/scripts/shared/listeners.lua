-- listeners: who listens on some channels. Where that may not be asked nothing is said.
--
-- Takes  the subcommand of PUBSUB that counts, '' for none; the channels; and what takes
--        the number of a channel and how many listen there
-- Reply  nothing

local function listeners(counting, channels, note)
  if counting == '' or #channels == 0 then
    return
  end
  local heard = redis.pcall('PUBSUB', counting, unpack(channels))
  for i = 1, heard.err and 0 or #channels do
    note(i, heard[2 * i])
  end
end
