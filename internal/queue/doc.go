// Package queue keeps goroutines of one process in queues, one queue for each key,
// first come, first served.
//
// It is for goroutines that compete for something that lies elsewhere, a lock in a
// store, where asking is expensive. The first of a queue is its head, and only the
// head asks. When it has got the lock it holds it, and the others go on waiting. The
// holder may pass the lock on to the first waiter, without asking anybody; or it says
// that it is done, and the first waiter is the next head.
//
//	place, head := queues.Enter(key, true, true, begin)
//	if !head {
//		v, given, err := place.Wait(ctx)
//		... // given: the holder before has passed v on; err: place.Leave
//	}
//	v := askForIt()               // as the head; place.Leave if that fails
//	q := place.Hold(v, after)
//	...
//	if !q.Pass(v, next, before) { // nobody waits, or next says that it must not be
//		release(v)
//		q.Next(v, prepare)
//	}
//
// A queue says who of this process is next, never the holder of the lock: that is to be asked
// of what is held.
//
// Some locks can be held by several at once. Their queue is never held: a head that got
// its lock calls Admit, which makes heads of so many waiters and ends its own place. Of
// several heads one is enough to wait for the store: Stay is true for the first that
// calls it, and sends the others back to where they waited.
//
// K distinguishes queues. T is what is held and passed on; the zero T means nothing. S is what
// the heads of a queue leave to each other: what they know, or have opened, that is of
// use to the next one. It begins and ends with the queue.
//
// These rules always hold:
//
//   - While a value is held there is no head. Else there is one at least, and a waiter
//     has its turn when those before it are gone.
//   - A value that was passed on is returned once, by Wait or by Leave, and not before
//     what Pass was to do ahead of that is done.
//   - Pass and Next with a value that is not held any more change nothing. So they may
//     come late, and twice.
//
// Functions that are passed in run while the mutex of the queues is held, unless it says
// otherwise: they must be short, and must not call the package. Lock order: that mutex
// comes before those that they take, and nothing here is called with any of those.
package queue
