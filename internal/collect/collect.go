// Package collect lets a test decide when a Lock that its program has dropped counts as collected.
// The garbage collector decides that at any time, and runs its clean-ups outside of the bubble of
// testing/synctest, so a simulation could neither wait for them nor repeat them.
package collect

// A Collector decides in place of the garbage collector. It is an optional interface of a
// driver.Backend, for tests of this module.
type Collector interface {
	// Returned is called with each *holdfast.Lock before a caller gets it. The function `drop`
	// does what happens when no goroutine has that Lock any more. Nothing else calls `drop`.
	Returned(lock any, drop func())
}
