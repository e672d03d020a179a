-- semaphore_abandon: end a claim whose acquire may still arrive.
--
-- With the tombstone, the server refuses that acquire. The script releases the permit first, so
-- that the permit is free even if the server refuses to set the tombstone. In that case the
-- caller repeats the script.
--
-- KEYS   1 counter of free permits, 2 held permits, 3 tombstone of the owner
-- ARGV   1 permit id, 2 ttl of the tombstone in ms, 3 channel, 4... publish commands
-- Reply  1 + receivers   released; -1: the same, but the server refused to publish
--        0               the owner held nothing
-- Uses   publish, ended, return_permit, set_expiring

local counter, permits, tombstone = KEYS[1], KEYS[2], KEYS[3]
local id, ttl, channel = ARGV[1], ARGV[2], ARGV[3]

local own = redis.call('ZSCORE', permits, id)
local free = own and return_permit(counter, permits, id) or 0

set_expiring(tombstone, 'abandoned', ttl)

return own and ended(free > 0 and publish(4, channel, string.format('%.0f', free)) or 0) or 0
