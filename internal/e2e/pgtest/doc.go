// Package pgtest has no code of its own, only tests: locks in PostgreSQL, over a real
// server.
package pgtest
