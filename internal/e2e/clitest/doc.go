// Package clitest has no code of its own, only tests: the command line tool, built and
// run as users do, and what README.md promises.
package clitest
