// Package guard makes this program a guard: a process that kills a command when the program
// that started it has ended, or can no longer act. A guard is this program, started with a
// hidden argument. A program only has to import the package. Package procgroup starts the
// guard.
//
// It imports little, and nothing that imports much, because the command has to wait for the
// start of its guard.
package guard

// Arg is the hidden first argument that makes the program a guard. The second is the
// process group that the guard enters when it leaves its own.
const Arg = "__guard"

// The messages of a guard and its parent.
const (
	Ready  = 'r' // from the guard: signals no longer end it
	Leave  = 'l' // to the guard, and back when it has left the group
	Stays  = 's' // from the guard: it could not leave
	KillBy = 'k' // to the guard, with 8 bytes of nanoseconds from now
)
