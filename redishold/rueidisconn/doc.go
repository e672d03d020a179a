// Package rueidisconn connects Holdfast to Redis or Valkey through rueidis.
//
// Open makes a client with settings for locks, from a URL. New uses a client of the
// program. Open is faster: without a cluster, few calls at a time need no other goroutine.
//
// # Deployments
//
// Open takes one URL for a single server, a unix socket, Sentinels or a cluster, with or
// without TLS. Before it returns, it checks that the servers match the URL. Commands go to
// masters. Replicas are never read, because their data may be old. So do not set ReplicaOnly,
// SendToReplicas or ReadNodeSelector in a client for New. Do not set ConnLifetime either: New
// says why.
//
// # What is sent, and how often
//
// Every call is sent at most once: rueidis repeats only commands that are marked as safe to
// repeat, and scripts are not marked. If an answer is lost, the call returns an error. There is
// one exception: a script that the server does not know is sent again, once.
//
// # Contexts
//
// A call returns when its context ends, in every state of the connection. So a call whose
// context can be cancelled runs in another goroutine: rueidis ignores the context while it
// waits for a connection that another caller makes, or for a place in a full pipeline. That
// goroutine ends when rueidis returns, at the latest when the connection counts as dead.
package rueidisconn
