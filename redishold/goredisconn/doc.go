// Package goredisconn lets Holdfast talk to Redis or Valkey through the go-redis
// client (v9.20.1 or newer) that a program already has.
//
//	locker := holdfast.New(redishold.New(goredisconn.New(rdb), nil), nil)
//
// # What is sent, and how often
//
// Every call is written at most once. go-redis by default repeats any command
// after a network error, whether it writes or not; the commands sent here ask it
// not to (Cmder.NoRetry), whatever the client's MaxRetries says. The one thing
// that is sent again, once, is a script that the server said it does not know.
// Hooks see these commands like all others; those of a cluster client see single
// commands only, as batches go to the clients of the nodes (OnNewNode).
//
// # Contexts
//
// A call returns when its context ends, in every state of the client. go-redis
// by itself does not: with its defaults it waits for ReadTimeout (5 s) while a
// server hangs. A call therefore runs in a goroutine of its own, which ends when
// go-redis' call returns, and keeps a connection of the pool until then. With
// ContextTimeoutEnabled that is at the context's deadline.
//
// # Options that matter
//
// ReadTimeout is also how soon a dead connection is given up; 2 s is a good
// value. It must stay above 1 s where redishold.Options asks for replicas, as
// WAIT takes up to that long.
//
// A cluster client has no setting for a database, which clusters from Valkey 9 on
// have. UniversalOptions.DB is passed over there; an OnConnect that calls Select
// serves, as every connection is made with it.
package goredisconn
