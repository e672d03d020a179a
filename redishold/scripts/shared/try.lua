-- try: run a command to see whether the user may, and note in refused what the
-- server says against it.
--
-- Takes  a command and its arguments
-- Reply  nothing; refused is the reply of a probe: {refusals, command, words,
--        command, words, ...}

local refused = {0}

local function try(command, ...)
  local answer = redis.pcall(command, ...)
  if type(answer) == 'table' and answer.err then
    refused[1] = refused[1] + 1
    refused[#refused + 1] = command
    refused[#refused + 1] = answer.err
  end
end
