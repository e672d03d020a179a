-- draw: reserve a block of fencing tokens: larger than all before it, and larger
-- than those that a lost counter gave out.
--
-- A full server refuses here: call it before anything else is written.
--
-- Takes  the key of the counter, and how many tokens
-- Reply  the first of them

local function draw(counter, tokens)
  local now = redis.call('TIME')
  local drawn = tonumber(redis.call('GET', counter) or 0) or 0
  local first = math.max(drawn + 1, tonumber(now[1]) * 1000000 + tonumber(now[2]))
  if not (first + tokens < 2 ^ 53) then -- also where the counter is nan
    error('token counter ' .. counter .. ' is beyond 2^53')
  end
  redis.call('SET', counter, string.format('%.0f', first + tokens - 1))
  return first
end
