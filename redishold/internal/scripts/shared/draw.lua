-- draw: reserve a block of fencing tokens: larger than all before it, and larger
-- than those that a lost counter gave out.
--
-- A full server refuses here: call it before anything else is written.
--
-- What is no number, or leaves no room for the block, is put back and is an
-- error: a counter may be ahead of the clock, so to begin again is not safe.
--
-- Takes  the key of the counter, and how many tokens: always the same number
-- Reply  the first of them
-- Uses   tick

local block -- the end of a block that begins now

local function draw(counter, tokens)
  local now = tick()
  block = block or string.format('%.0f', now + tokens - 1)
  local before = redis.call('SET', counter, block, 'GET')
  local drawn = tonumber(before or 0)
  if drawn and drawn < now and now + tokens < 2 ^ 53 then
    return now
  end

  -- The counter is ahead: a block just before, or a clock that was set back.
  local first = drawn and math.floor(drawn) + 1
  if not (drawn and first + tokens < 2 ^ 53) then -- also where it is nan
    redis.call('SET', counter, before or 0)
    error('token counter ' .. counter .. ' is no number below 2^53')
  end
  redis.call('SET', counter, first + tokens - 1)
  return first
end
