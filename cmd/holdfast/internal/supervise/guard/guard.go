// Package guard is the process that kills a command when the program that started it has
// ended, or can no longer act. That is this program again, with a hidden argument: to be
// imported is all that it takes. Package procgroup starts it.
//
// It imports little, and nothing that imports much, because a guard starts between the
// lock and its command.
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
