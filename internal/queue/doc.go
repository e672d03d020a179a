// Package queue keeps the goroutines of one process in queues, one queue for each key, first
// come, first served.
//
// It is for goroutines that compete for something outside the process, such as a lock in a
// store, for which it is expensive to ask. The first goroutine of a queue is its head, and only
// the head asks the store. When the head has got the lock, it becomes the holder, and the
// others go on waiting. The holder may pass the lock on to the first waiter, which then need
// not ask the store. Or the holder releases the lock, and the first waiter becomes the head.
//
//	place, head := queues.Enter(key, true, true, begin)
//	if !head {
//		v, given, err := place.Wait(ctx)
//		... // given: the holder has passed v on; err: place.Leave
//	}
//	v := askForIt()               // as the head; place.Leave if that fails
//	q := place.Hold(v, after)
//	...
//	if !q.Pass(v, next, before) { // no one waits, or next says that v must not be passed on
//		release(v)
//		q.Next(v, prepare)
//	}
//
// A queue decides which goroutine of this process is next. It does not know the holder of
// the lock in the store.
//
// Some locks can be held by several goroutines at once. The queue of such a lock never has a
// holder, but it may have several heads, which ask at the same time. Goroutines enter it with
// Join, which makes heads of the first ones. A head that has got the lock calls Admit, which
// makes heads of some waiters, and ends the place of the head that called it. If the lock is
// not free, it is enough that one head waits until the store can grant it. Stay returns true
// for the first head that calls it, and makes waiters of the other heads again, at their old
// places. While a head stays, Join makes no heads.
//
// K identifies a queue. T is the type of what is held and passed on; the zero T means that
// nothing is held. S is the state of a queue: what one head leaves to the next head, such as
// what it knows about the lock in the store. The state begins and ends with the queue.
//
// These rules always hold:
//
//   - While a value is held there is no head. While no value is held there is at least one
//     head, and a waiter becomes a head when the waiters and heads before it have left.
//   - A value that was passed on is returned once, by Wait or by Leave. Before the value is
//     returned, Pass has called the function `before`.
//   - Pass and Next change nothing for a value that is not held any more. So they may be
//     called late, and twice.
//
// Functions that a caller passes to this package run while the mutex of the queues is held,
// unless a comment says otherwise. So they must be short, and must not call the package. Lock
// order: the functions may lock other mutexes while the mutex of the queues is held. So the
// package must not be called while one of these other mutexes is held.
package queue
