-- whose: the client of a waiter. All waiters of one client of Holdfast for a lock listen on
-- one channel, where each message ends with the owner that it is for.
--
-- Takes  an owner
-- Reply  the client in the owner, or the owner itself if no client is in it

local function whose(waiter)
  return string.match(waiter, '^(.+):') or waiter
end
