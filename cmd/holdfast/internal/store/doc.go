// Package store finds the store of the locks, and opens it: by flags, variables and the
// configuration, with the password, and however long it takes to answer.
package store
