-- whose: the client that a waiter of Holdfast's belongs to. All waiters of a
-- client for one lock listen on one channel, where each message ends with the
-- owner whom it is for.
--
-- Takes  an owner
-- Reply  its client, or the owner itself if it does not name one

local function whose(waiter)
  return string.match(waiter, '^(.+):') or waiter
end
