//go:build race

package redishold

// raceDetector is true if allocations cannot be counted, because sync.Pool drops some values.
const raceDetector = true
