// Package hostiletest has no code of its own, only tests: servers that send what no store sends,
// each in front of the command line tool. The tool must end in its time with a text that a person
// can act on, without a panic, and without much memory.
package hostiletest
