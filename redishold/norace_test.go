//go:build !race

package redishold

const raceDetector = false
