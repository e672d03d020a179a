-- tick: the server's clock. It is asked once: a script runs at one instant.
--
-- Takes  nothing
-- Reply  the time in microseconds

local clock

local function tick()
  if not clock then
    local now = redis.call('TIME')
    clock = now[1] * 1000000 + now[2]
  end
  return clock
end
