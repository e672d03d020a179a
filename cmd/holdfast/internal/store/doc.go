// Package store finds the store of the locks in flags, variables and the configuration. It
// gets the password, opens the store, and waits for its answer.
package store
