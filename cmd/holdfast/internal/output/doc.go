// Package output is what commands write: text and JSON of locks and stores, messages for
// people, and the statuses to exit with. It asks no store.
package output
