package driver

// Granter is implemented by a Waiter of a store that grants a claim on its own
// while the claim waits, as a queue in the store can do at a release.
type Granter interface {
	// Granted reports, after Wait returned nil, whether the store has granted the
	// claim since the last Try, and if so the grant. ValidFor counts from the start
	// of that Try, the one whose Outcome Wait was given: the message may be late.
	// The grant may be shorter than the claim's TTL; a renewal, or another Try,
	// extends it to that.
	//
	// Granted does no I/O. A grant that it does not know of is not lost: the next
	// Try is granted again.
	Granted() (Outcome, bool)
}
