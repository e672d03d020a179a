// Package retry decides what happens when a call to a store fails: what the error
// says, and when the call is made again. It is the only place that knows either.
//
// A reply can be lost, so an error often says nothing of what the store did. Every
// call is idempotent for that reason: a caller without an answer makes the same call again.
// Two questions about an error follow from that. Is it certain that the call left
// nothing behind ([Certain], or [Gone])? Is it useless to call again ([Final])? The
// answers stand in the table of package driver, beside its errors.
//
// How long one call may take ([Timeout]), how long the pause before the next is
// ([Delay]) and how long a waiter sleeps ([SleepLimit]) is the policy in delays.go. A
// [Loop] applies it to a call. The acquire of a lock has a loop of its own, because it
// also waits for the holders of the lock; it uses the same errors and the same policy.
package retry
