-- millis: the server's time in milliseconds since 1970, as text.
--
-- Reply  digits: as a number Lua would show it rounded

local function millis()
  local clock = redis.call('TIME')
  return clock[1] .. string.format('%03d', math.floor(tonumber(clock[2]) / 1000))
end
