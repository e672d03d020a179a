// Package console runs programs in a pseudo-terminal, for tests of what a person does at a
// terminal. It is for Linux.
package console
