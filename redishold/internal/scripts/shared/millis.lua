-- millis: the server's time in ms since 1970, as text.
--
-- Reply  digits, because Lua rounds a large number when it becomes text

local function millis()
  local clock = redis.call('TIME')
  return clock[1] .. string.format('%03d', math.floor(tonumber(clock[2]) / 1000))
end
