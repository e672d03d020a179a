-- whose: the client of a waiter. All waiters of one client of Holdfast for a lock listen on
-- one channel, where each message ends with the owner that it is for.
--
-- Takes  an owner
-- Reply  its client, or the owner itself if it has no client

local function whose(waiter)
  return string.match(waiter, '^(.+):') or waiter
end
