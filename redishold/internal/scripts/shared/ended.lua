-- ended: what a script answers that ended a hold.
--
-- Takes  how many received the message, -1 if the server refused to publish
-- Reply  that and 1, so that it is not 0; or -1

local function ended(receivers)
  return receivers < 0 and -1 or receivers + 1
end
