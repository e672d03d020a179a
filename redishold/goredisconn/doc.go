// Package goredisconn connects Holdfast to Redis or Valkey through the go-redis client
// (v9.20.1 or newer) of a program.
//
//	locker := goredisconn.Locker(rdb, nil)
//
// # What is sent, and how often
//
// Every call is sent at most once. By default go-redis repeats any command after a
// network error. The commands of this package prevent that (Cmder.NoRetry), whatever
// MaxRetries is. There is one exception: a script that the server does not know is sent
// again, once. Hooks see these commands like all others. Hooks of a cluster client see
// single commands only, because batches go to the clients of the nodes (OnNewNode).
//
// # Contexts
//
// A call returns when its context ends, in every state of the client. go-redis alone does not
// ensure that: if a server hangs, it waits for ReadTimeout (5 s by default). So a call whose
// context can be cancelled runs in another goroutine. That goroutine ends when the call of
// go-redis returns, and uses a connection of the pool until then. With ContextTimeoutEnabled,
// the call of go-redis ends at the deadline of the context. Then a call that only its deadline
// can end runs in the goroutine of its caller while few calls are in flight, which is faster.
//
// # Options that matter
//
// ReadTimeout also decides when a dead connection is closed; 2 s is a good value. With
// redishold.Options.Replicas, ReadTimeout must be longer than 1 s, because a WAIT may take 1 s.
//
// Clusters from Valkey 9 on have more than one database, but a cluster client has no setting
// for the database, and ignores UniversalOptions.DB. Use an OnConnect that calls Select:
// go-redis calls OnConnect for each new connection.
package goredisconn
