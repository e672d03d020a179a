// Package clitest has no code of its own, only tests: the command line tool, built and
// run as users do, and the README and the quickstart, typed line by line.
package clitest
