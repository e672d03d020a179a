// Package procgroup runs a command so that none of its processes is left behind.
//
// The command gets a process group of its own, which all its descendants share.
// The leader of that group is not the command but a guard: the calling program,
// executed a second time with a hidden argument. The guard exists before the
// command does and holds the reading end of a pipe whose writing end only the
// calling program has. When that program ends in whatever way, also by SIGKILL
// or a crash, the pipe closes and the guard kills the whole group. When that
// program is stopped and can no longer act, the guard kills the group at the
// deadline it got last. Because the command enters the group before its
// first instruction, there is no moment at which a descendant could slip away.
//
// A program that imports this package becomes a guard where it is started as one: see
// package guard.
//
// # What is not promised
//
// A descendant that leaves the group on purpose, with setsid or setpgid (a
// daemon, or a job of an interactive shell), is unreachable. So is one that
// runs as another user: the system does not let the group kill it. If somebody
// kills both the guard and the calling program with SIGKILL, only the command
// itself is killed (by Linux, on the death of its parent), not its descendants.
package procgroup
