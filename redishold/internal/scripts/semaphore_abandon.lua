-- semaphore_abandon: end a claim of which an acquire may still be under way.
--
-- The mark makes that acquire find nothing to grant. The permit goes back first:
-- if the mark is refused, it is free all the same, and the caller repeats.
--
-- KEYS   1 counter of free permits, 2 permits out, 3 mark of the owner
-- ARGV   1 permit id, 2 ttl of the mark in ms, 3 channel, 4... the commands to publish with
-- Reply  1 + receivers   released; -1: the same, but the server refused to publish
--        0               the owner held nothing
-- Uses   publish, ended, take_back, leave_mark

local counter, permits, mark = KEYS[1], KEYS[2], KEYS[3]
local id, ttl, channel = ARGV[1], ARGV[2], ARGV[3]

local own = redis.call('ZSCORE', permits, id)
local free = own and take_back(counter, permits, id) or 0

leave_mark(mark, 'abandoned', ttl)

return own and ended(free > 0 and publish(4, channel, string.format('%.0f', free)) or 0) or 0
