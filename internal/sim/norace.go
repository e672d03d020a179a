//go:build !race

package sim

// slower is how many times longer a simulation takes, without the race detector.
const slower = 1
