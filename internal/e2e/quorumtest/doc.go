// Package quorumtest has no code of its own, only tests: majorities of real servers,
// under faults.
package quorumtest
