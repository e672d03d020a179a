// Package migratingtest runs the Go programs of docs/migrating.md that keep locks in Redis, as
// they are before and after the move from another library, and compares the pages about moves
// with the programs that tests run.
package migratingtest
