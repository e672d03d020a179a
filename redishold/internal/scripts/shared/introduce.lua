-- introduce: add the registration of the holder to the reply of a busy acquire, so that the
-- caller needs no second round trip for it.
--
-- The key of the registration is not among KEYS, because its name is only known here. So the
-- caller asks for the registration only on a single server, not in a cluster. If the server
-- refuses to read the registration, the reply does not change.
--
-- Takes  reply; key prefix of registrations, '' or nil if the caller does not ask for one
-- Reply  the given reply; a busy reply gets one element more: {registration or '', server
--        time in ms}
-- Uses   millis

local function introduce(reply, prefix)
  if not prefix or prefix == '' or type(reply) ~= 'table' or reply[1] ~= 0 or #reply[3] > 200 then
    return reply
  end
  local field = string.match(reply[3], '^(.+):write$') or reply[3]
  local client = string.match(field, '^(.+):')
  local registration = client and redis.pcall('GET', prefix .. client)
  if registration == false or type(registration) == 'string' then
    reply[#reply + 1] = {registration or '', millis()}
  end
  return reply
end
