// Package matrix asks what becomes of a lock under every fault, on every way of
// running Redis and on each of the other stores: one test for each cell, with the outcome
// that it must have. The tables in docs/guarantees.md are written from the same cells:
//
//	go test ./internal/e2e/matrix -run TestTable -update
//
// It has nothing but tests.
package matrix
