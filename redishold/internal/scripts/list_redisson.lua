-- list_redisson: read the locks of some names in Redisson's layout. It writes nothing.
--
-- If a name has very many holders or waiters, the reply has some of them and the number of
-- all. It does not read the timeout keys of readers, because their names are only known after
-- reading the lock: list_leases reads them.
--
-- KEYS   five for each name: 1 lock, 2 queue, 3 deadlines of the queue, 4 until when
--        Holdfast's waiters count as alive, 5 held permits
-- ARGV   1 maximal number of holders and of waiters of each name, 2 the subcommand of
--        PUBSUB that counts listeners, '' for none; then four for each name:
--        the channels of 3 locks, 4 read-write locks, 5 semaphores, 6 latches
-- Reply  {{state, ..., listeners, listeners of a latch}, ...}, one for each name;
--        -1 listeners: unknown. The state, and the elements after it:
--          'free'     the lock has no holder: pttl, {}, 0, waiters
--          'hash'     a lock in a hash: pttl, {field, count, ...}, number of holders, waiters
--          'readers'  a read-write lock: pttl, {field, count, ...} with the field mode,
--                     number of holders
--          'number'   a counter: pttl, its value, number of held permits, number of expired
--                     permits, {permit id, remaining ms, ...}
--          'other'    no lock: nothing
--        A pttl or remaining ms of -1 means that there is no end. The waiters are
--        {number of all waiters, owner, ms until this owner counts as dead, ...}
-- Uses   tick, allow_wrongtype, listeners

local limit, counting = tonumber(ARGV[1]), ARGV[2]
local last, never = tostring(limit - 1), 922337203685477
local now = math.floor(tick() / 1000)
local now_text = string.format('%.0f', now)

-- remaining returns the ms from now until the time `score`, or -1 if that time means "never".
local function remaining(score)
  score = tonumber(score)
  if not score or score >= never then
    return -1
  end
  return math.max(0, math.floor(score - now))
end

local function waiters(queue, deadlines, alive)
  local owners = allow_wrongtype(redis.pcall('LRANGE', queue, '0', last))
  if owners.err or #owners == 0 then
    return {0}
  end
  local list = {#owners < limit and #owners or redis.call('LLEN', queue)}
  for _, owner in ipairs(owners) do
    list[#list + 1] = owner
    list[#list + 1] = remaining(redis.call('ZSCORE', alive, owner) or redis.call('ZSCORE', deadlines, owner))
  end
  return list
end

local function number(lock, permits)
  local value = allow_wrongtype(redis.pcall('GETRANGE', lock, '0', '31'))
  if type(value) ~= 'string' or not (value == '' or string.match(value, '^-?%d+$')) then
    return {'other'}
  end
  local held = allow_wrongtype(redis.pcall('ZCOUNT', permits, '(' .. now_text, '+inf'))
  if type(held) ~= 'number' then
    held = 0 -- the key has another type
  end
  local expired, shown = 0, {}
  if held > 0 or value ~= '' then
    expired = redis.pcall('ZCOUNT', permits, '0', now_text)
    expired = type(expired) == 'number' and expired or 0
  end
  if held > 0 then
    shown = redis.call('ZRANGEBYSCORE', permits, '(' .. now_text, '+inf', 'WITHSCORES', 'LIMIT', '0', ARGV[1])
    for i = 2, #shown, 2 do
      shown[i] = remaining(shown[i])
    end
  end
  return {'number', redis.call('PTTL', lock), value, held, expired, shown}
end

-- hash reads the lock in a hash. The parameter `page` has the first fields: all of them, unless
-- the hash is large. The second result is the number of the channel in the list of ARGV above.
local function hash(at, page)
  local lock, fields, all, mode = KEYS[at + 1], page[2], #page[2] / 2, nil
  if page[1] ~= '0' then
    all, mode = redis.call('HLEN', lock), redis.call('HGET', lock, 'mode')
  end
  for i = 1, #fields, 2 do
    if fields[i] == 'mode' then
      mode = fields[i + 1]
    elseif not string.find(fields[i], '-', 1, true) and not string.find(fields[i + 1], '-', 1, true) then
      return {'other'} -- neither the field nor the value has the id of a client
    end
  end
  local pttl = redis.call('PTTL', lock)
  if mode == 'read' or mode == 'write' then
    return {'readers', pttl, fields, all - 1}, 4
  end
  local shown = {}
  for i = 1, math.min(#fields, 2 * limit) do
    shown[i] = fields[i]
  end
  return {'hash', pttl, shown, all, waiters(KEYS[at + 2], KEYS[at + 3], KEYS[at + 4])}, 3
end

-- read returns the reply for one name, and the numbers of its channels in the list of ARGV
-- above.
local function read(at)
  local page = allow_wrongtype(redis.pcall('HSCAN', KEYS[at + 1], '0', 'COUNT', ARGV[1]))
  if page.err then
    return number(KEYS[at + 1], KEYS[at + 5]), 5, 6
  end
  if #page[2] > 0 then
    return hash(at, page)
  end
  local queue = waiters(KEYS[at + 2], KEYS[at + 3], KEYS[at + 4])
  local permits = queue[1] == 0 and number(KEYS[at + 1], KEYS[at + 5]) or {'free'}
  if permits[1] == 'number' and permits[4] > 0 then
    return permits, 5
  end
  return {'free', -2, {}, 0, queue}, 3
end

local found, channels, asked = {}, {}, {}
for name = 0, #KEYS / 5 - 1 do
  local record, first, second = read(5 * name)
  record[#record + 1] = -1
  record[#record + 1] = -1
  found[name + 1] = record
  for i, channel in pairs({first, second}) do
    if record[1] ~= 'other' then
      channels[#channels + 1] = ARGV[4 * name + channel]
      asked[#asked + 1] = {record, #record - 2 + i}
    end
  end
end
listeners(counting, channels, function(i, count) asked[i][1][asked[i][2]] = count end)
return found
