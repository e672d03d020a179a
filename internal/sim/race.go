//go:build race

package sim

// slower is how many times longer a simulation takes, with the race detector.
const slower = 10
