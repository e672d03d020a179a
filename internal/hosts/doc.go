// Package hosts has no code of its own, only tests: packages elect, job and named in the
// programs that they are made for, with the tests that those export. It is a module outside of
// the workspace, as it would raise the dependencies of all others, and is never released.
package hosts
