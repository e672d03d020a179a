// Package matrix asks what becomes of a lock under every fault, on every way of
// running Redis: one test for each cell, with the outcome that it must have. The
// table in docs/guarantees.md is written from the same cells:
//
//	go test ./internal/e2e/matrix -run TestTable -update
//
// It has nothing but tests.
package matrix
