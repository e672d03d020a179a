// Package output has what commands write: text and JSON of locks and stores, messages for
// people, and exit statuses. It sends nothing to a store.
package output
