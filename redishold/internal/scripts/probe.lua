-- probe: find out which commands of the other scripts the user may not run.
--
-- The script runs each command once, on a scratch key that does not exist, with valid
-- arguments. It leaves no key. If the user may not run DEL, the script does not run the
-- commands that could create the key. Instead it asks the server whether the user may run these
-- commands. Redis 6.2 has no such question, so on Redis 6.2 these commands count as allowed.
--
-- KEYS   1 scratch key, 2... other keys that the user must have access to
-- ARGV   1 scratch channel, 2... commands
-- Reply  {number of refusals, command, error, command, error, ...}, with the error replies
--        of the server

local key, channel, refused = KEYS[1], ARGV[1], {0}

-- The minimal numbers of arguments, for the commands for which this number is not two. If such
-- a command is missing here, every server refuses it because of the number of its arguments.
local least = {
  TIME = 0, DEL = 1, EXISTS = 1, GET = 1, HGETALL = 1, HKEYS = 1, HLEN = 1, LLEN = 1, LPOP = 1, PTTL = 1, ZCARD = 1,
  HSET = 3, LRANGE = 3, LREM = 3, ZADD = 3, ZCOUNT = 3, ZRANGE = 3, ZRANGEBYSCORE = 3, ZREMRANGEBYSCORE = 3,
}
local creates = {HSET = true, INCRBY = true, RPUSH = true, SET = true, ZADD = true}

local function note(command, text)
  refused[1] = refused[1] + 1
  refused[#refused + 1] = command
  refused[#refused + 1] = text
end

-- run runs a command, and returns false if the server refused it.
local function run(command)
  local first = string.find(command, 'PUBLISH', 1, true) and channel or key
  local answer = redis.pcall(command, unpack({first, '0', '0'}, 1, least[command] or 2))
  if type(answer) == 'table' and answer.err then
    note(command, answer.err)
    return false
  end
  return true
end

local deletes = run('DEL') -- DEL first: a full server refuses neither DEL nor the writes after it
for i = 2, #ARGV do
  local command = ARGV[i]
  if deletes or not creates[command] then
    run(command)
  else
    local asked, may = pcall(redis.acl_check_cmd, command, key) -- raises an error if the command was renamed
    if asked and not may then
      note(command, "NOPERM this user has no permissions to run the '" .. string.lower(command) .. "' command")
    end
  end
  if deletes and creates[command] then
    redis.call('DEL', key)
  end
end
return refused
