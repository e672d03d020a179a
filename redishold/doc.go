// Package redishold keeps Holdfast's locks in Redis (6.2 or newer) or Valkey, in
// the layout that Redisson uses, so that Go and Java programs exclude each other
// on the same names.
//
// The package imports no Redis client: it needs a Conn of package rueidisconn or
// goredisconn.
package redishold
