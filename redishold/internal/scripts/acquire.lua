-- acquire: give the lock to an owner, unless somebody else holds it.
--
-- KEYS   1 lock, 2 mark of the owner, 3 token counter
-- ARGV   1 owner, 2 ttl in ms, 3 holds, 4 how many tokens to reserve,
--        5 what registrations begin with, '' if nobody asks for the holder's, 6 channel,
--        if others may wait for the lock and shall hear that it is taken, 7... the
--        commands to publish with
-- Reply  first token                granted, now or by an earlier call
--        {0, pttl, holder, holds}   busy; holder '' where the hash is too large for a lock.
--                                   One element more where introduce has something to say
--        {-1}                       the key is another kind of lock, or none
--        {-2, mark}                 the owner was given up or broken
-- Uses   acquire, publish, introduce

local reply, new = acquire(KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]))
if new and ARGV[6] then
  publish(7, ARGV[6], '2')
end
return introduce(reply, ARGV[5])
