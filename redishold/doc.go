// Package redishold keeps Holdfast's locks in Redis (6.2 or newer) or Valkey, in
// the layout that Redisson uses, so that Go and Java programs exclude each other
// on the same names.
//
// The package is the layout, the Lua scripts and the waiting. It imports no
// Redis client: hand it a Conn from package rueidisconn or goredisconn.
package redishold
