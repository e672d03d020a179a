package meter

// AcquireBounds returns the bounds of the buckets for the time to get a lock, in seconds:
// from a round trip to the longest waits.
func AcquireBounds() []float64 {
	return []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}
}

// HoldBounds returns the bounds of the buckets for the time that a lock is held, in seconds.
func HoldBounds() []float64 {
	return []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 900, 3600, 14400, 86400}
}

// MarginBounds returns the bounds of the buckets for the time that is left when a renewal
// succeeds, in seconds: from 0 to two thirds of a TTL. The default TTL is 30 s.
func MarginBounds() []float64 {
	return []float64{.01, .05, .1, .25, .5, 1, 2, 3, 5, 7.5, 10, 12.5, 15, 17.5, 20, 30, 60}
}

// CallBounds returns the bounds of the buckets for the time of one call to a store, in
// seconds: from a store in this process to one that does not answer.
func CallBounds() []float64 {
	return []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
}
