-- try: run a command to see whether the user may, and note in refused what the
-- server says against it. would is try for a command that must not be run: a
-- server before 7.0 cannot be asked that, and then nothing is noted.
--
-- Takes  a command and its arguments
-- Reply  nothing; refused is the reply of a probe: {refusals, command, words,
--        command, words, ...}

local refused = {0}

local function would(command, ...)
  local asked, may = pcall(redis.acl_check_cmd, command, ...) -- one that was renamed is an error
  if asked and not may then
    refused[1] = refused[1] + 1
    refused[#refused + 1] = command
    refused[#refused + 1] = "NOPERM this user has no permissions to run the '" .. string.lower(command) .. "' command"
  end
end

local function try(command, ...)
  local answer = redis.pcall(command, ...)
  if type(answer) == 'table' and answer.err then
    refused[1] = refused[1] + 1
    refused[#refused + 1] = command
    refused[#refused + 1] = answer.err
  end
end
