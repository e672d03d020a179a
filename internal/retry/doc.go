// Package retry decides what happens when a call to a store fails: what the error
// says, and when the call is made again. It is the only place that knows either.
//
// A reply can be lost, so an error often says nothing of what the store did. Every
// call is idempotent for that reason: whoever has no answer makes the same call again.
// Two questions about an error follow from that. Is it certain that the call left
// nothing behind ([Certain])? Is it useless to call again ([Final])?
//
//	error of a driver.Backend   left nothing behind   calling again
//	ErrNotExecuted                  certain               may succeed
//	ErrMismatch                 certain               is useless
//	ErrGone                     see Gone              is useless
//	ErrRefused                  unknown               is useless until somebody acts
//	ErrClosed                   certain               is useless for ever
//	errors.ErrUnsupported       unknown               is useless
//	any other                   unknown               may succeed
//
// An error that is several of these is certain if one of them is, and final if one of
// them is: ErrClosed comes with ErrNotExecuted and ErrRefused.
//
// How long one call may take ([Timeout]), how long the pause before the next is
// ([Delay]) and how long a waiter sleeps ([SleepLimit]) is the policy in delays.go. A
// [Loop] applies it to a call. The acquire of a lock has a loop of its own, because it
// also waits for those who hold the lock; it uses the same errors and the same policy.
package retry
