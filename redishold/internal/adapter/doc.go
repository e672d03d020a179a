// Package adapter is the common part of the adapters of Redis clients: calls that end with
// their context, batches that are spread over the nodes of a cluster, polls for a new master
// after a call without a reply, the bookkeeping of subscriptions, the classes of errors, and
// reading INFO. It imports no Redis client.
package adapter
