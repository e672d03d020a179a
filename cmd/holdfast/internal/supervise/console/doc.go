// Package console runs programs in a pseudo-terminal, for tests that try what a
// person at a terminal would. It is for Linux.
package console
