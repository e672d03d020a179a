// Package conntest proves that the adapters of Redis clients keep the promises
// of redishold.Conn, against a real server and with faults in between. Its
// tests run for every adapter in every configuration that matters; their names
// are the specification.
package conntest
