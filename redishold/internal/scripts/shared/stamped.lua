-- stamped: add the server's time to an object in JSON, as "at".
--
-- Takes  an object that is not empty
-- Reply  the object with "at" in ms
-- Uses   millis

local function stamped(object)
  return '{"at":' .. millis() .. ',' .. string.sub(object, 2)
end
