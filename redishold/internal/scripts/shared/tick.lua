-- tick: the server's clock. It is read once, because a script runs at one instant.
--
-- Takes  nothing
-- Reply  time in microseconds

local clock

local function tick()
  if not clock then
    local now = redis.call('TIME')
    clock = now[1] * 1000000 + now[2]
  end
  return clock
end
