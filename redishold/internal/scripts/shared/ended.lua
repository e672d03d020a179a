-- ended: the reply of a script that has ended a hold.
--
-- Takes  number of receivers of the message, -1 if the server refused to publish
-- Reply  number of receivers plus 1, because 0 means that no hold was ended; -1 stays -1

local function ended(receivers)
  return receivers < 0 and -1 or receivers + 1
end
