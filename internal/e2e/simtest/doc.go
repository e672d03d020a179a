// Package simtest has no code of its own, only tests: package sim over the engine of
// redishold, whose scripts run over a model of a Redis server.
package simtest
