-- renew: extend a lock if its owner still holds it, and record the hold count.
--
-- KEYS   1 lock
-- ARGV   1 owner, 2 ttl in ms, 3 hold count
-- Reply  1   extended
--        0   the owner holds nothing
--        -1  another client has taken a read-write lock of that name; the hold has ended
-- Uses   renew

return renew(KEYS[1], ARGV[1], ARGV[2], ARGV[3])
