// Package redishold keeps Holdfast's locks in Redis (6.2 or newer) or Valkey, in
// the layout that Redisson uses, so that Go and Java programs exclude each other
// on the same names.
//
// The package is what is sent for a claim, and what an answer means. It imports no
// Redis client: hand it a Conn from package rueidisconn or goredisconn.
package redishold
