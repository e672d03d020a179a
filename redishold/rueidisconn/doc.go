// Package rueidisconn lets Holdfast talk to Redis or Valkey through rueidis.
//
// Open makes a client that is set up for locks and needs nothing but a URL. New
// takes a client that the program already has.
//
// # Deployments
//
// Open takes one URL for a single server, a unix socket, Sentinels or a cluster,
// with or without TLS, and finds out before it returns whether that is what is
// there. Commands go to masters; replicas are never read, because what they know
// of a lock may be old. A client that is handed to New must be set up likewise:
// without ReplicaOnly, SendToReplicas, ReadNodeSelector and ConnLifetime.
//
// # What is sent, and how often
//
// Every call is written at most once: rueidis repeats only what is marked as
// safe to repeat, and scripts are not. A call whose answer is lost is reported
// as such. The one thing that is sent again, once, is a script that the server
// said it does not know.
//
// # Contexts
//
// A call returns when its context ends, in every state of the connection. It
// runs in a goroutine of its own, because rueidis waits without a context for a
// connection that another caller is making and for a place in a full pipeline.
// That goroutine ends with rueidis' call: at the latest when the connection is
// found to be dead.
package rueidisconn
