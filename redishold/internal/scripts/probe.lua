-- probe: which of the commands that other scripts consist of may this user not run?
--
-- Each is run once, on a scratch key that does not exist and with arguments that are no
-- error. It leaves nothing behind: what could create the key is run only where it may be
-- deleted. Else the server is asked, which Redis 6.2 cannot be: there nothing is noted.
--
-- KEYS   1 scratch key, 2... others that the user needs access to as well
-- ARGV   1 scratch channel, 2... commands
-- Reply  {refusals, command, words, command, words, ...}: what the server
--        refused, with the server's words

local key, channel, refused = KEYS[1], ARGV[1], {0}

-- How many arguments a command takes at least, if not two. One that is missing here is
-- refused for that by every server.
local least = {
  TIME = 0, DEL = 1, EXISTS = 1, GET = 1, HGETALL = 1, HKEYS = 1, HLEN = 1, LLEN = 1, LPOP = 1, PTTL = 1, ZCARD = 1,
  HSET = 3, LRANGE = 3, LREM = 3, ZADD = 3, ZCOUNT = 3, ZRANGE = 3, ZRANGEBYSCORE = 3, ZREMRANGEBYSCORE = 3,
}
local creates = {HSET = true, INCRBY = true, RPUSH = true, SET = true, ZADD = true}

local function note(command, words)
  refused[1] = refused[1] + 1
  refused[#refused + 1] = command
  refused[#refused + 1] = words
end

-- run returns whether the server took a command.
local function run(command)
  local first = string.find(command, 'PUBLISH', 1, true) and channel or key
  local answer = redis.pcall(command, unpack({first, '0', '0'}, 1, least[command] or 2))
  if type(answer) == 'table' and answer.err then
    note(command, answer.err)
    return false
  end
  return true
end

local tidy = run('DEL') -- first of all: a full server does not refuse it, nor what follows it
for i = 2, #ARGV do
  local command = ARGV[i]
  if tidy or not creates[command] then
    run(command)
  else
    local asked, may = pcall(redis.acl_check_cmd, command, key) -- one that was renamed is an error
    if asked and not may then
      note(command, "NOPERM this user has no permissions to run the '" .. string.lower(command) .. "' command")
    end
  end
  if tidy and creates[command] then
    redis.call('DEL', key)
  end
end
return refused
