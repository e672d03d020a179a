// Package adapter is what the adapters of Redis clients have in common: the
// bookkeeping of subscriptions, the classes of errors, calls that end with their
// context, and reading INFO. It imports no Redis client.
package adapter
