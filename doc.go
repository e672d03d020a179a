// Package holdfast is a distributed lock: one process at a time sells the last
// item, runs the nightly job, deploys, or leads.
//
// A Locker takes locks from a store. Package redishold keeps them in Redis, in
// Redisson's layout; package memhold keeps them in memory, for examples and
// tests.
//
//	lock, err := locker.Lock(ctx, "stock:42") // waits until ctx is done
//	if err != nil {
//		return err
//	}
//	defer lock.Unlock()
//
//	return ship(lock.Context(ctx), lock.Token())
//
// # Words
//
// A claim is one attempt to hold a name. When the store grants it, it becomes a
// hold, which the user has as a *Lock, and only for as long as it is held. The
// store keeps a hold for its TTL, the lease; the Locker renews the lease each
// third of it until the lock is unlocked, unless the option Lease fixed its end.
// A hold that ends in any other way is lost.
//
// # What is promised
//
// At most one holder believes that it holds the lock as long as the store keeps
// what it acknowledged for the length of the lease and clocks run at rates
// within one percent. The holder learns of a loss before the store can give the
// lock away: the lease counts from before the request was sent, minus a margin,
// on the monotonic clock, and needs no answer from a store that is out of reach.
// Any doubt is "not acquired": no error ever becomes a held lock, and an acquire
// that failed or was cancelled leaves nothing behind for longer than one TTL
// after the store executed it. A machine that was suspended asks the store before
// it trusts a lock again.
//
// A lock alone does not protect data outside the store. A process that is
// suspended between its last check and its write still writes. Where that
// matters, send Lock.Token along and let the resource refuse a token smaller
// than the largest it has seen (Kleppmann, "How to do distributed locking",
// 2016).
package holdfast
