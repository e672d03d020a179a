// Package retry decides what happens when a call to a store fails: what the error means, and
// when the call is made again. No other package decides that.
//
// A reply can be lost, so an error often does not show what the store did. Therefore every
// call is idempotent, and a caller without an answer makes the same call again. Two
// questions about an error follow from that. Is it certain that the call left nothing
// behind ([Certain], or [Gone])? Is it useless to call again ([Final])? The table of
// package driver, beside its errors, has the answers.
//
// The policy in delays.go sets how long one call may take ([Timeout]), how long the pause
// before the next call is ([Delay]) and how long a waiter sleeps ([SleepLimit]). A [Loop]
// applies this policy to one call. The acquire of a lock has a loop of its own, because it also
// waits for the holders of the lock. It uses the same errors and the same policy.
package retry
