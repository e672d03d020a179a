-- stamped: an object in JSON with the server's time in it, as "at".
--
-- Takes  an object that is not empty
-- Reply  the same with one member more
-- Uses   millis

local function stamped(object)
  return '{"at":' .. millis() .. ',' .. string.sub(object, 2)
end
