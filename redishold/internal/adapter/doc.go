// Package adapter is what the adapters of Redis clients have in common: calls
// that end with their context, batches that are spread over the nodes of a
// cluster, looks at who is master while there is doubt, the bookkeeping of
// subscriptions, the classes of errors, and reading INFO. It imports no Redis
// client.
package adapter
