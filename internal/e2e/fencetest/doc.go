// Package fencetest has no code of its own, only tests: fencing tokens that databases
// check.
package fencetest
