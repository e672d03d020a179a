//go:build race

package redishold

// raceDetector says that allocations mean nothing: sync.Pool drops some.
const raceDetector = true
